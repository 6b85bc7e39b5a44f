// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! A connection whose peer must take what is written within a time, and all of an answer within another:
//! who takes a few bytes now and then has the service hold a megabyte for hours.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{ready, Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{sleep, Instant, Sleep};

/// Ends with an error when a write makes no progress for so long, or an answer takes longer than the other.
pub struct WithDeadlines<T> {
    inner: T,
    patience: Duration,
    answer_time: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
    /// Since when an answer is written.
    begun: Option<Instant>,
}

impl<T> WithDeadlines<T> {
    pub fn new(inner: T, patience: Duration, answer_time: Duration) -> Self {
        WithDeadlines { inner, patience, answer_time, waiting: None, begun: None }
    }

    /// Has its answer taken too long?
    fn check_answer(&mut self) -> io::Result<()> {
        match self.begun.get_or_insert_with(Instant::now).elapsed() > self.answer_time {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(()),
        }
    }

    /// Passes a result on; while there is none, the time runs.
    fn watch<R>(&mut self, cx: &mut Context, poll: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if poll.is_ready() {
            self.waiting = None;
            return poll;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(waiting.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for WithDeadlines<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context,
        buf: &mut ReadBuf,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for WithDeadlines<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check_answer()?;
        let poll = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.watch(cx, poll)
    }

    /// Head and body in one call: without it a large body is copied behind its head.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context,
        bufs: &[io::IoSlice],
    ) -> Poll<io::Result<usize>> {
        self.check_answer()?;
        let poll = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.watch(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_flush(cx);
        // hyper flushes when it has written all that it had.
        if poll.is_ready() {
            self.begun = None;
        }
        self.watch(cx, poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.watch(cx, poll)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const MS: Duration = Duration::from_millis(1);

    /// Writes so many bytes to a peer that takes one each 5 ms.
    async fn write(bytes: usize) -> io::Result<()> {
        let (near, mut far) = tokio::io::duplex(16);
        let peer = tokio::spawn(async move {
            while far.read_u8().await.is_ok() {
                sleep(5 * MS).await;
            }
        });
        let mut stream = WithDeadlines::new(near, 200 * MS, 400 * MS);
        let written = async {
            stream.write_all(&vec![0; bytes]).await?;
            stream.flush().await
        };
        let written = written.await;
        peer.abort();
        written
    }

    #[tokio::test]
    async fn an_answer_that_is_taken_by_bytes_ends_after_a_while() {
        assert!(write(20).await.is_ok());
        let begun = Instant::now();
        assert_eq!(write(10_000).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() < 5_000 * MS);
    }
}
