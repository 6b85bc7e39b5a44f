// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Who may do what.

use std::path::Path;

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, Method, StatusCode};
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
}
