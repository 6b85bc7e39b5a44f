// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Who may do what, by which name, and from which web page.

use std::net::IpAddr;
use std::path::Path;

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode};
use imtcp_client::destination::destination;
use imtcp_client::token_file;

use super::problem::Problem;
use crate::error::Result;

/// Bearer tokens; none: nobody may.
#[derive(Clone, Debug, Default)]
pub struct Tokens(Vec<Vec<u8>>);

impl Tokens {
    /// Those of a file ([`token_file`]).
    pub fn read(path: &Path) -> Result<Self> {
        let tokens = token_file::read(path)?;
        Ok(Tokens(tokens.into_iter().map(String::into_bytes).collect()))
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

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Nothing that needs a right.
    Nothing,
    Read,
    Write,
}

impl Right {
    /// The right that a route needs; `None`: there is no such route. Whatever is new and changes something
    /// needs the right to write.
    pub fn of(method: &Method, route: Option<&str>) -> Self {
        match route {
            None | Some("/" | "/openapi.json" | "/healthz") => Right::Nothing,
            Some("/RPC2") => Right::Read,
            Some(_) if method.is_safe() => Right::Read,
            Some(_) => Right::Write,
        }
    }
}

/// Why a request has not the right that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The service was started without tokens for it.
    Nobody,
    NoToken(Right),
    WrongToken(Right),
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
    pub fn check(&self, right: Right, headers: &HeaderMap) -> std::result::Result<(), Denied> {
        let writes = |t| self.write.as_ref().is_some_and(|w| w.has(t));
        let reads = |t| self.read.as_ref().is_some_and(|r| r.has(t));
        match (right, bearer(headers)) {
            (Right::Nothing, _) => Ok(()),
            (Right::Read, _) if self.read.is_none() => Ok(()),
            (Right::Write, _) if self.write.is_none() => Err(Denied::Nobody),
            // Both are asked, so that time does not tell which list has it.
            (Right::Read, Some(token)) if reads(token) | writes(token) => Ok(()),
            (Right::Write, Some(token)) if writes(token) => Ok(()),
            (_, Some(_)) => Err(Denied::WrongToken(right)),
            (_, None) => Err(Denied::NoToken(right)),
        }
    }

    /// Whether the request has the right, without a word where it has not.
    pub fn has(&self, right: Right, headers: &HeaderMap) -> bool {
        self.check(right, headers).is_ok()
    }
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Self {
        let (right, given) = match denied {
            Denied::Nobody => {
                let detail = "nobody may write here: start the service with --token-file";
                return Problem::new(StatusCode::FORBIDDEN, detail);
            }
            Denied::NoToken(right) => (right, false),
            Denied::WrongToken(right) => (right, true),
        };
        let (what, option) = match right {
            Right::Write => ("writing", "--token-file"),
            _ => ("reading", "--read-token-file"),
        };
        let detail = match given {
            true => format!("that token is not one of the service's for {what}: see its {option}"),
            false => {
                format!("{what} needs a token of the service's: send 'Authorization: Bearer …'")
            }
        };
        Problem::new(StatusCode::UNAUTHORIZED, detail)
    }
}

/// Names that requests may call the service by. A web page may lead its own name to this machine (DNS
/// rebinding). Its reader's browser then lets it read the answers. The request still has the page's name, and is
/// refused.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Option<Vec<String>>);

impl Hosts {
    /// Loopback's own names, and these. Elsewhere than on loopback nobody knows all names of a
    /// machine: any will do, unless some are given.
    pub fn new(listen: IpAddr, names: &[String]) -> Result<Self> {
        let names: Vec<_> =
            names.iter().map(|n| destination(n)).collect::<std::result::Result<_, _>>()?;
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
        if host_name(called).is_some_and(|host| is_own_name(&host, names)) {
            return Ok(());
        }
        let shown: String = called.chars().take(60).collect();
        let detail = format!(
            "the service is not called '{shown}' (header Host): ask by its address on loopback \
             or as localhost, or start it with --host and that name"
        );
        Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, detail))
    }

    /// Refuses requests that another site's page makes in its reader's browser. The page cannot read the
    /// answers, but it could put the service to work.
    pub fn may_come_from(&self, headers: &HeaderMap) -> std::result::Result<(), Problem> {
        let text = |name: &str| headers.get(name).map(|v| v.to_str().unwrap_or_default());
        let own = |origin: &str| {
            let authority = origin.split_once("://").map_or("", |(_, rest)| rest);
            let called = text(HOST.as_str()).unwrap_or_default();
            let names = self.0.as_deref().unwrap_or_default();
            // A proxy that encrypts leaves out other ports than it passes on.
            authority == called || host_name(authority).is_some_and(|host| names.contains(&host))
        };
        let origins = headers.get_all(ORIGIN);
        let foreign = origins.iter().any(|origin| !origin.to_str().is_ok_and(own));
        // A page's picture or script has no Origin. Following a link is fine.
        let embedded = matches!(text("sec-fetch-site"), Some("cross-site" | "same-site"))
            && text("sec-fetch-mode") != Some("navigate");
        if !foreign && !embedded {
            return Ok(());
        }
        let detail = "a page of another site asks here: the service answers its own page and \
                      programs alone. Behind a proxy, start it with --host and the proxy's name";
        Err(Problem::new(StatusCode::FORBIDDEN, detail))
    }
}

/// The host of `host:port`.
fn host_name(authority: &str) -> Option<String> {
    authority.parse::<Authority>().ok().and_then(|a| destination(a.host()).ok())
}

fn is_own_name(host: &String, names: &[String]) -> bool {
    let is_loopback = host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    is_loopback || host == "localhost" || names.contains(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(value))])
    }

    #[test]
    fn writing_needs_a_token_and_without_tokens_nobody_writes() {
        let access = Access { write: Some(Tokens::new(&["secret"])), read: None };
        let check = |value| access.check(Right::Write, &headers(value));
        assert_eq!(check("Bearer secret"), Ok(()));
        assert_eq!(check("bearer secret"), Ok(()));
        for wrong in ["Bearer secre", "Bearer secrets", "Bearer "] {
            assert_eq!(check(wrong), Err(Denied::WrongToken(Right::Write)), "{wrong}");
        }
        for none in ["Basic secret", "x", ""] {
            assert_eq!(check(none), Err(Denied::NoToken(Right::Write)), "{none}");
        }
        let problem = |value| Problem::from(check(value).unwrap_err());
        assert_eq!(problem("Bearer secre").status, 401);
        assert!(problem("Bearer secre").detail.contains("not one of the service's for writing"));
        assert!(problem("").detail.contains("send 'Authorization"));
        assert!(access.has(Right::Read, &HeaderMap::new()));
        let denied = Access::default().check(Right::Write, &headers("Bearer x")).unwrap_err();
        assert_eq!((denied, Problem::from(denied).status), (Denied::Nobody, 403));
    }

    #[test]
    fn reading_may_need_one_too_and_a_writer_reads() {
        let read = Some(Tokens::new(&["reader"]));
        let access = Access { write: Some(Tokens::new(&["writer"])), read };
        assert!(access.has(Right::Read, &headers("Bearer reader")));
        assert!(access.has(Right::Read, &headers("Bearer writer")));
        assert!(!access.has(Right::Write, &headers("Bearer reader")));
        assert!(!access.has(Right::Read, &HeaderMap::new()));
        assert!(access.has(Right::Nothing, &HeaderMap::new()));
    }

    #[test]
    fn whatever_changes_something_needs_the_right_to_write() {
        let of = |method, route| Right::of(&method, route);
        assert_eq!(of(Method::POST, Some("/v1/reports")), Right::Write);
        assert_eq!(of(Method::PATCH, Some("/v1/paths/{dst}")), Right::Write);
        assert_eq!(of(Method::POST, Some("/v1/what-comes-later")), Right::Write);
        assert_eq!(of(Method::GET, Some("/v1/what-comes-later")), Right::Read);
        assert_eq!(of(Method::HEAD, Some("/metrics")), Right::Read);
        assert_eq!(of(Method::POST, Some("/RPC2")), Right::Read);
        assert_eq!(of(Method::GET, Some("/healthz")), Right::Nothing);
        assert_eq!(of(Method::DELETE, None), Right::Nothing);
    }

    #[test]
    fn a_page_of_another_site_is_refused_and_the_services_own_is_not() {
        let hosts = Hosts::new("::1".parse().unwrap(), &["advice.example.org".into()]).unwrap();
        let may = |pairs: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.append(*name, HeaderValue::from_static(value));
            }
            hosts.may_come_from(&headers).is_ok()
        };
        let host = ("host", "127.0.0.1:8750");
        assert!(may(&[host]));
        assert!(may(&[host, ("origin", "http://127.0.0.1:8750")]));
        assert!(may(&[host, ("origin", "https://advice.example.org")]));
        assert!(may(&[host, ("sec-fetch-site", "same-origin")]));
        assert!(may(&[host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]));
        for origin in ["http://evil.example", "null", "", "http://127.0.0.1:3000", "x"] {
            assert!(!may(&[host, ("origin", origin)]), "{origin}");
        }
        let own = ("origin", "http://127.0.0.1:8750");
        assert!(!may(&[host, own, ("origin", "http://evil.example")]));
        for site in ["cross-site", "same-site"] {
            assert!(!may(&[host, ("sec-fetch-site", site), ("sec-fetch-mode", "no-cors")]));
            assert!(!may(&[host, ("sec-fetch-site", site)]));
        }
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
}
