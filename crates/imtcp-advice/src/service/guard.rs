// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Who may do what, by which name, and how often.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use axum::http::header::{AUTHORIZATION, HOST};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode};

use super::problem::Problem;
use crate::error::{Error, Result};
use crate::record::destination;

/// Bearer tokens; none: nobody may.
#[derive(Clone, Debug, Default)]
pub struct Tokens(Vec<Vec<u8>>);

const SHORTEST_TOKEN: usize = 16;

impl Tokens {
    /// A token a line; empty lines and those that begin with # do not count.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let wrong = |why: String| Error::Input(format!("token file {shown}: {why}"));
        let text = std::fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
        let mode = std::fs::metadata(path).map_err(|e| wrong(e.to_string()))?.permissions().mode();
        if mode & 0o007 != 0 {
            return Err(wrong("anybody can read it: chmod 600 it first".into()));
        }
        let tokens: Vec<_> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(|line| line.as_bytes().to_vec())
            .collect();
        if tokens.is_empty() {
            return Err(wrong("there is no token in it".into()));
        }
        if tokens.iter().any(|t| t.len() < SHORTEST_TOKEN) {
            return Err(wrong(format!("a token is shorter than {SHORTEST_TOKEN} characters")));
        }
        Ok(Tokens(tokens))
    }

    pub fn new(tokens: &[&str]) -> Self {
        Tokens(tokens.iter().map(|t| t.as_bytes().to_vec()).collect())
    }

    fn has(&self, token: &[u8]) -> bool {
        // All are compared, and all bytes of each, so that time tells nothing.
        self.0.iter().fold(false, |found, t| found | same(t, token))
    }
}

fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |acc, (x, y)| acc | (x ^ y)) == 0
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
}

/// Rights by token.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Who may write. `None`: nobody.
    pub write: Option<Tokens>,
    /// Who may read; a token for writing reads as well. `None`: everybody.
    pub read: Option<Tokens>,
}

impl Access {
    pub fn may_read(&self, headers: &HeaderMap) -> std::result::Result<(), Problem> {
        let Some(readers) = &self.read else { return Ok(()) };
        let has = |t| readers.has(t) || self.write.as_ref().is_some_and(|w| w.has(t));
        match bearer(headers) {
            Some(token) if has(token) => Ok(()),
            given => Err(unauthorized("reading", given.is_some(), "--read-token-file")),
        }
    }

    pub fn may_write(&self, headers: &HeaderMap) -> std::result::Result<(), Problem> {
        let Some(writers) = &self.write else {
            let detail = "nobody may write here: start the service with --token-file";
            return Err(Problem::new(StatusCode::FORBIDDEN, detail));
        };
        match bearer(headers) {
            Some(token) if writers.has(token) => Ok(()),
            given => Err(unauthorized("writing", given.is_some(), "--token-file")),
        }
    }
}

fn unauthorized(what: &str, given: bool, option: &str) -> Problem {
    let detail = match given {
        true => format!("that token is not one of the service's for {what}: see its {option}"),
        false => format!("{what} needs a token of the service's: send 'Authorization: Bearer …'"),
    };
    Problem::new(StatusCode::UNAUTHORIZED, detail)
}

/// Names that requests may call the service by. A web page may lead its own name to this machine
/// (DNS rebinding), and its reader's browser then lets it read what the service answers: the name
/// in the request is still the page's.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Option<Vec<String>>);

impl Hosts {
    /// Loopback's own names, and these. Elsewhere than on loopback nobody knows all names of a
    /// machine: any will do, unless some are given.
    pub fn new(listen: IpAddr, names: &[String]) -> Result<Self> {
        let names: Vec<_> = names.iter().map(|n| destination(n)).collect::<Result<_>>()?;
        Ok(Hosts((listen.is_loopback() || !names.is_empty()).then_some(names)))
    }

    pub fn may_call(&self, headers: &HeaderMap) -> std::result::Result<(), Problem> {
        let Some(names) = &self.0 else { return Ok(()) };
        let given = headers.get_all(HOST).iter().count();
        if given != 1 {
            let detail = format!("a request has one header Host, this one has {given}");
            return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, detail));
        }
        let called = headers.get(HOST).and_then(|h| h.to_str().ok()).unwrap_or_default();
        let host = called.parse::<Authority>().ok().and_then(|a| destination(a.host()).ok());
        let is_ours = |host: String| {
            let is_loopback = host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
            is_loopback || host == "localhost" || names.contains(&host)
        };
        if host.is_some_and(is_ours) {
            return Ok(());
        }
        let shown: String = called.chars().take(60).collect();
        let detail = format!(
            "the service is not called '{shown}' (header Host): ask by its address on loopback \
             or as localhost, or start it with --host and that name"
        );
        Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, detail))
    }
}

/// A bucket of requests for each client: so many a second, and as many at once.
pub struct RateLimit {
    per_second: f64,
    /// This machine's own programs are not limited.
    spares_loopback: bool,
    buckets: Mutex<HashMap<IpAddr, (f64, Instant)>>,
}

/// Clients remembered; an IPv6 network of /64 is one.
const MOST_CLIENTS: usize = 65_536;

impl RateLimit {
    /// 0: no limit.
    pub fn new(per_second: u32, spares_loopback: bool) -> Self {
        RateLimit { per_second: per_second.into(), spares_loopback, buckets: Mutex::default() }
    }

    pub fn allows(&self, client: IpAddr, now: Instant) -> bool {
        if self.per_second == 0.0 || (self.spares_loopback && client.to_canonical().is_loopback()) {
            return true;
        }
        let mut buckets = self.buckets.lock().unwrap_or_else(|e| e.into_inner());
        if buckets.len() >= MOST_CLIENTS {
            // After a second of silence a bucket is full again, as if it were new.
            buckets.retain(|_, (_, at)| now.duration_since(*at).as_secs_f64() < 1.0);
            if buckets.len() >= MOST_CLIENTS {
                buckets.clear();
            }
        }
        let (left, at) = buckets.entry(network(client)).or_insert((self.per_second, now));
        let earned = now.saturating_duration_since(*at).as_secs_f64() * self.per_second;
        *left = (*left + earned).min(self.per_second);
        *at = now;
        let allowed = *left >= 1.0;
        if allowed {
            *left -= 1.0;
        }
        allowed
    }
}

fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) >> 64 << 64).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use std::time::Duration;

    fn headers(value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(value))])
    }

    #[test]
    fn writing_needs_a_token_and_without_tokens_nobody_writes() {
        let access = Access { write: Some(Tokens::new(&["secret"])), read: None };
        assert!(access.may_write(&headers("Bearer secret")).is_ok());
        assert!(access.may_write(&headers("bearer secret")).is_ok());
        for wrong in ["Bearer secre", "Bearer secrets", "Bearer ", "Basic secret", "x", ""] {
            assert_eq!(access.may_write(&headers(wrong)).unwrap_err().status, 401, "{wrong}");
        }
        let detail = |value| access.may_write(&headers(value)).unwrap_err().detail;
        assert!(detail("Bearer secre").contains("not one of the service's for writing"));
        assert!(detail("").contains("send 'Authorization"));
        assert!(access.may_read(&HeaderMap::new()).is_ok());
        assert_eq!(Access::default().may_write(&headers("Bearer x")).unwrap_err().status, 403);
    }

    #[test]
    fn reading_may_need_one_too_and_a_writer_reads() {
        let read = Some(Tokens::new(&["reader"]));
        let access = Access { write: Some(Tokens::new(&["writer"])), read };
        assert!(access.may_read(&headers("Bearer reader")).is_ok());
        assert!(access.may_read(&headers("Bearer writer")).is_ok());
        assert!(access.may_write(&headers("Bearer reader")).is_err());
        assert!(access.may_read(&HeaderMap::new()).is_err());
    }

    #[test]
    fn on_loopback_the_service_goes_by_its_own_names_and_those_given() {
        let calls = |hosts: &Hosts, name: &'static str| {
            let name = HeaderValue::from_static(name);
            hosts.may_call(&HeaderMap::from_iter([(HOST, name)])).is_ok()
        };
        let loopback: IpAddr = "::1".parse().unwrap();
        let hosts = Hosts::new(loopback, &["Advice.Example.ORG.".into()]).unwrap();
        for name in ["127.0.0.1:8750", "127.9.9.9", "[::1]:8750", "localhost:1", "LocalHost"] {
            assert!(calls(&hosts, name), "{name}");
        }
        assert!(calls(&hosts, "advice.example.org:443"));
        for name in ["evil.example:8750", "localhost.evil.example", "192.0.2.7", "[::2]", "", "a b"]
        {
            assert!(!calls(&hosts, name), "{name}");
        }
        let evil = HeaderMap::from_iter([(HOST, HeaderValue::from_static("evil.example"))]);
        let problem = hosts.may_call(&evil).unwrap_err();
        assert!(problem.status == 421 && problem.detail.contains("--host"), "{problem:?}");
        let mut twice = HeaderMap::new();
        for name in ["localhost", "evil.example"] {
            twice.append(HOST, HeaderValue::from_static(name));
        }
        let detail = |headers: &HeaderMap| hosts.may_call(headers).unwrap_err().detail;
        assert!(detail(&twice).ends_with("one header Host, this one has 2"), "{}", detail(&twice));
        let none = detail(&HeaderMap::new());
        assert!(none.ends_with("this one has 0"), "{none}");
        assert!(Hosts::new(loopback, &["a b".into()]).is_err());
    }

    #[test]
    fn elsewhere_any_name_will_do_unless_some_are_given() {
        let anywhere: IpAddr = "0.0.0.0".parse().unwrap();
        assert!(Hosts::new(anywhere, &[]).unwrap().may_call(&HeaderMap::new()).is_ok());
        let named = Hosts::new(anywhere, &["advice.example.org".into()]).unwrap();
        assert!(named.may_call(&HeaderMap::new()).is_err());
    }

    #[test]
    fn a_token_file_that_anybody_reads_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        std::fs::write(&path, "# ours\n\n0123456789abcdef\n").unwrap();
        let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        mode(0o644);
        assert!(Tokens::read(&path).unwrap_err().to_string().contains("chmod 600"));
        mode(0o600);
        assert!(Tokens::read(&path).unwrap().has(b"0123456789abcdef"));
        std::fs::write(&path, "short\n").unwrap();
        assert!(Tokens::read(&path).unwrap_err().to_string().contains("shorter"));
        std::fs::write(&path, "# none\n").unwrap();
        assert!(Tokens::read(&path).unwrap_err().to_string().contains("no token"));
    }

    #[test]
    fn a_client_gets_its_rate_and_no_other_suffers() {
        let limit = RateLimit::new(10, true);
        let start = Instant::now();
        let (a, b): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        assert_eq!((0..30).filter(|_| limit.allows(a, start)).count(), 10);
        assert!(limit.allows(b, start));
        let later = start + Duration::from_millis(500);
        assert_eq!((0..30).filter(|_| limit.allows(a, later)).count(), 5);
        assert!((0..1000).all(|_| RateLimit::new(0, false).allows(a, start)));
        let local = "127.0.0.1".parse().unwrap();
        assert!((0..1000).all(|_| limit.allows(local, start)));
        let strict = RateLimit::new(10, false);
        assert_eq!((0..30).filter(|_| strict.allows(local, start)).count(), 10);
    }
}
