// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! What ping(8) of iputils says with `-q`, in the locale C.

/// Its last lines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    pub transmitted: u32,
    pub received: u32,
    /// The round trips of the answers received; `None` if there were none.
    pub rtt: Option<Rtt>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtt {
    pub least_us: u64,
    pub mean_us: u64,
}

impl Summary {
    /// Share of packets that were not answered, 0 to 1.
    pub fn loss(&self) -> f64 {
        let received = self.received.min(self.transmitted);
        1.0 - f64::from(received) / f64::from(self.transmitted)
    }
}

/// `None` for what is no summary, as when ping ended before it sent anything.
///
/// ```text
/// 5 packets transmitted, 4 received, 20% packet loss, time 817ms
/// rtt min/avg/max/mdev = 31.402/31.502/31.902/0.100 ms
/// ```
///
/// Between received and loss there may be `+1 duplicates` and `+1 errors`, after the times `pipe 2`.
pub fn summary(text: &str) -> Option<Summary> {
    let counts = text.lines().find(|line| line.contains(" packets transmitted, "))?;
    let mut counts = counts.split(", ").map(|part| part.split(' ').next()?.parse().ok());
    let (transmitted, received) = (counts.next()??, counts.next()??);
    let rtt = text.lines().find(|line| line.starts_with("rtt min/avg/max/mdev = "));
    let rtt = match rtt {
        Some(line) => Some(times(line)?),
        None if received == 0 => None,
        None => return None,
    };
    (transmitted > 0).then_some(Summary { transmitted, received, rtt })
}

fn times(line: &str) -> Option<Rtt> {
    let mut times_us = line.split_once(" = ")?.1.split('/').map(|text| {
        let ms: f64 = text.parse().ok()?;
        (ms > 0.0 && ms < 1e6).then(|| (ms * 1e3).round() as u64)
    });
    Some(Rtt { least_us: times_us.next()??, mean_us: times_us.next()?? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// iputils 20221126 of Debian 12.
    #[test]
    fn counts_and_times_are_those_that_ping_prints() {
        let text = "PING 127.0.0.1 (127.0.0.1) 56(84) bytes of data.\n\n\
            --- 127.0.0.1 ping statistics ---\n\
            5 packets transmitted, 5 received, 0% packet loss, time 817ms\n\
            rtt min/avg/max/mdev = 0.036/0.039/0.050/0.005 ms\n";
        let rtt = Some(Rtt { least_us: 36, mean_us: 39 });
        assert_eq!(summary(text), Some(Summary { transmitted: 5, received: 5, rtt }));
        assert_eq!(summary(text).unwrap().loss(), 0.0);
    }

    /// The same version: two of five unanswered; a host that ignores them; nobody at the address.
    #[test]
    fn lost_packets_count_and_without_answers_there_is_no_time() {
        let some = "PING 10.98.0.2 (10.98.0.2) 56(84) bytes of data.\n\n\
            --- 10.98.0.2 ping statistics ---\n\
            5 packets transmitted, 3 received, 40% packet loss, time 830ms\n\
            rtt min/avg/max/mdev = 0.041/0.049/0.054/0.005 ms\n";
        let some = summary(some).unwrap();
        assert!((some.loss() - 0.4).abs() < 1e-12);
        assert_eq!(some.rtt, Some(Rtt { least_us: 41, mean_us: 49 }));
        let ignored = "PING 10.98.0.2 (10.98.0.2) 56(84) bytes of data.\n\n\
            --- 10.98.0.2 ping statistics ---\n\
            5 packets transmitted, 0 received, 100% packet loss, time 815ms\n\n";
        let ignored = summary(ignored).unwrap();
        assert_eq!((ignored.loss(), ignored.rtt), (1.0, None));
        let nobody = "--- 10.98.0.77 ping statistics ---\n\
            12 packets transmitted, 0 received, +12 errors, 100% packet loss, time 2894ms\n\
            pipe 12\n";
        assert_eq!(summary(nobody), Some(Summary { transmitted: 12, received: 0, rtt: None }));
    }

    #[test]
    fn what_is_no_summary_is_none() {
        for text in [
            "",
            "PING 127.0.0.1 (127.0.0.1) 56(84) bytes of data.\n",
            "x packets transmitted, 5 received, 0% packet loss\n",
            "5 packets transmitted, 5 received, 0% packet loss, time 817ms\n",
            "0 packets transmitted, 0 received\n",
            "5 packets transmitted, 5 received, 0% packet loss\nrtt min/avg/max/mdev = x/1/1/1 ms\n",
            "5 packets transmitted, 5 received, 0% packet loss\nrtt min/avg/max/mdev = -1/1/1/1 ms\n",
        ] {
            assert_eq!(summary(text), None, "{text:?}");
        }
    }
}
