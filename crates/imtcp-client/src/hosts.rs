// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! By which names requests may call a program that answers HTTP, and which web pages may ask it.
//!
//! A web page may lead its own name to this machine (DNS rebinding). Its reader's browser then lets it read the
//! answers. The request still has the page's name, and is refused.

use std::net::IpAddr;

use nix::unistd::gethostname;
use ureq::http::header::{HOST, ORIGIN};
use ureq::http::uri::Authority;
use ureq::http::{HeaderMap, StatusCode, Uri};

use crate::destination::destination;
use crate::wrong::Result;

/// Names that requests may call the program by. By default any: whoever asks without a network gives none.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Option<Names>);

#[derive(Clone, Debug)]
struct Names {
    names: Vec<String>,
    /// No page has a name that is an address.
    any_address: bool,
}

/// Why a request is not answered.
#[derive(Clone, Debug)]
pub struct Refused {
    pub status: StatusCode,
    pub detail: String,
}

impl Hosts {
    /// Loopback's own names, and those given. Where none is given beyond loopback: any address, this machine's own
    /// name, and those of its certificate.
    pub fn new(listen: IpAddr, given: &[String], of_certificate: &[String]) -> Result<Self> {
        let mut names = given.iter().map(|n| destination(n)).collect::<Result<Vec<_>>>()?;
        let any_address = !listen.is_loopback() && given.is_empty();
        if any_address {
            names.extend(own_name());
            names.extend(of_certificate.iter().map(|name| name.to_ascii_lowercase()));
        }
        Ok(Hosts(Some(Names { names, any_address })))
    }

    /// Whether a request with this target and these headers calls the program by a name of its own.
    pub fn may_call(&self, target: &Uri, headers: &HeaderMap) -> std::result::Result<(), Refused> {
        let Some(names) = &self.0 else { return Ok(()) };
        let given = headers.get_all(HOST).iter().count();
        if given != 1 {
            let detail = format!("a request has one header Host, this one has {given}");
            return Err(Refused { status: StatusCode::BAD_REQUEST, detail });
        }
        let called = headers.get(HOST).and_then(|h| h.to_str().ok()).unwrap_or_default();
        // An absolute target names a host too [RFC 9112 §3.2.2].
        let of_target = target.authority().map(Authority::as_str);
        let foreign = |name: &&str| !host_name(name).is_some_and(|host| names.has(&host));
        let Some(called) = [called].into_iter().chain(of_target).find(foreign) else {
            return Ok(());
        };
        let shown: String = called.chars().take(60).collect();
        let address = if names.any_address { "address" } else { "address on loopback" };
        let detail = format!(
            "the service is not called '{shown}': ask by its {address} or as localhost, \
             or start it with --host and that name"
        );
        Err(Refused { status: StatusCode::MISDIRECTED_REQUEST, detail })
    }

    /// Refuses requests that another site's page makes in its reader's browser. The page cannot read the
    /// answers, but it could put the service to work.
    pub fn may_come_from(&self, headers: &HeaderMap) -> std::result::Result<(), Refused> {
        let text = |name: &str| headers.get(name).map(|v| v.to_str().unwrap_or_default());
        let own = |origin: &str| {
            let authority = origin.split_once("://").map_or("", |(_, rest)| rest);
            let called = text(HOST.as_str()).unwrap_or_default();
            let is_named = |host: String| self.0.as_ref().is_some_and(|own| own.is_named(&host));
            // A proxy that encrypts leaves out other ports than it passes on.
            authority == called || host_name(authority).is_some_and(is_named)
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
        Err(Refused { status: StatusCode::FORBIDDEN, detail: detail.into() })
    }
}

impl Names {
    fn has(&self, host: &str) -> bool {
        let is_address = |ip: IpAddr| self.any_address || ip.is_loopback();
        host.parse().is_ok_and(is_address) || host == "localhost" || self.is_named(host)
    }

    fn is_named(&self, host: &str) -> bool {
        let parent = host.split_once('.').map(|(_, parent)| parent);
        let is = |name: &String| match name.strip_prefix("*.") {
            // In a certificate it stands for one label.
            Some(of) => parent == Some(of),
            None => name == host,
        };
        self.names.iter().any(is)
    }
}

/// This machine's, where it is one that a request can have.
fn own_name() -> Option<String> {
    destination(gethostname().ok()?.to_str()?).ok()
}

/// The host of `host:port`.
fn host_name(authority: &str) -> Option<String> {
    authority.parse::<Authority>().ok().and_then(|a| destination(a.host()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ureq::http::HeaderValue;

    fn calls(hosts: &Hosts, name: &str) -> bool {
        let name = HeaderValue::from_str(name).unwrap();
        may_call(hosts, "/", &HeaderMap::from_iter([(HOST, name)])).is_ok()
    }

    fn may_call(
        hosts: &Hosts,
        target: &str,
        headers: &HeaderMap,
    ) -> std::result::Result<(), Refused> {
        hosts.may_call(&target.parse().unwrap(), headers)
    }

    #[test]
    fn a_page_of_another_site_is_refused_and_the_services_own_is_not() {
        let named = ["advice.example.org".into()];
        let hosts = Hosts::new("::1".parse().unwrap(), &named, &[]).unwrap();
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
        let loopback: IpAddr = "::1".parse().unwrap();
        let hosts = Hosts::new(loopback, &["Advice.Example.ORG.".into()], &[]).unwrap();
        for name in ["127.0.0.1:8750", "127.9.9.9", "[::1]:8750", "localhost:1", "LocalHost"] {
            assert!(calls(&hosts, name), "{name}");
        }
        assert!(calls(&hosts, "advice.example.org:443"));
        for name in ["evil.example:8750", "localhost.evil.example", "192.0.2.7", "[::2]", "", "a b"]
        {
            assert!(!calls(&hosts, name), "{name}");
        }
        let evil = HeaderMap::from_iter([(HOST, HeaderValue::from_static("evil.example"))]);
        let refused = may_call(&hosts, "/", &evil).unwrap_err();
        assert!(refused.status == 421 && refused.detail.contains("--host"), "{refused:?}");
        let mut twice = HeaderMap::new();
        for name in ["localhost", "evil.example"] {
            twice.append(HOST, HeaderValue::from_static(name));
        }
        let detail = |headers: &HeaderMap| {
            let refused = may_call(&hosts, "/", headers).unwrap_err();
            assert_eq!(refused.status, 400);
            refused.detail
        };
        assert!(detail(&twice).ends_with("one header Host, this one has 2"), "{}", detail(&twice));
        let none = detail(&HeaderMap::new());
        assert!(none.ends_with("this one has 0"), "{none}");
        assert!(Hosts::new(loopback, &["a b".into()], &[]).is_err());
        let own = HeaderMap::from_iter([(HOST, HeaderValue::from_static("localhost"))]);
        assert!(may_call(&hosts, "http://advice.example.org/v1/paths", &own).is_ok());
        let refused = may_call(&hosts, "http://evil.example/v1/paths", &own).unwrap_err();
        assert!(refused.status == 421 && refused.detail.contains("'evil.example'"), "{refused:?}");
    }

    #[test]
    fn elsewhere_addresses_and_the_machines_own_names_will_do_unless_some_are_given() {
        let anywhere: IpAddr = "0.0.0.0".parse().unwrap();
        let of_certificate = ["Advice.example".into(), "*.example.org".into()];
        let hosts = Hosts::new(anywhere, &[], &of_certificate).unwrap();
        let own = gethostname().unwrap().into_string().unwrap();
        for name in ["192.0.2.7:8750", "[2001:db8::7]", "localhost:1", "127.0.0.1", &own] {
            assert!(calls(&hosts, name), "{name}");
        }
        assert!(calls(&hosts, "advice.example:8750") && calls(&hosts, "a.example.org"));
        for name in ["evil.example:8750", "example.org", "a.b.example.org", "*.example.org", ""] {
            assert!(!calls(&hosts, name), "{name}");
        }
        let named = Hosts::new(anywhere, &["advice.example.org".into()], &of_certificate).unwrap();
        assert!(calls(&named, "advice.example.org") && !calls(&named, "192.0.2.7"));
        assert!(!calls(&named, "a.example.org"));
    }
}
