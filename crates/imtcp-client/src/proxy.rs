// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The proxy that leads to an advice service, by the variables that curl knows.
//!
//! The HTTP library reads these variables too, and differs: it sends what is for this machine to a
//! proxy, takes HTTPS_PROXY for http:// as well, and reads no network in NO_PROXY.

use std::net::IpAddr;

use hyper_util::client::proxy::matcher::Matcher;
use ureq::http::Uri;
use ureq::Proxy;

const FOR_HTTP: [&str; 4] = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];
const FOR_HTTPS: [&str; 4] = ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
const FOR_NONE: [&str; 2] = ["no_proxy", "NO_PROXY"];

/// The proxy for a URL; `None`: ask the service directly.
pub fn for_url(
    url: &Uri,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Proxy>, String> {
    let set = |names: &[&'static str]| {
        let values = names.iter().filter_map(|name| Some((*name, variable(name)?)));
        values.into_iter().find(|(_, value)| !value.trim().is_empty())
    };
    if url.host().is_none_or(is_loopback) {
        return Ok(None);
    }
    let names = if url.scheme_str() == Some("https") { &FOR_HTTPS } else { &FOR_HTTP };
    let Some((name, proxy)) = set(names) else { return Ok(None) };
    if set(&FOR_NONE).is_some_and(|(_, direct)| is_direct(url, &direct)) {
        return Ok(None);
    }
    // Never the value: there may be a password in it.
    Proxy::new(proxy.trim()).map(Some).map_err(|e| {
        format!("{name} is no URL of a proxy ({e}): write http://HOST:PORT, or unset it")
    })
}

/// Whether a list as in NO_PROXY has the URL's host: names with their subdomains, addresses, networks.
fn is_direct(url: &Uri, list: &str) -> bool {
    let entries = list.split(|c: char| c == ',' || c.is_whitespace());
    // `*.example.org` is as `.example.org`; a single `*` is everything, addresses too.
    let entries: Vec<_> = entries.map(|e| e.strip_prefix('*').unwrap_or(e)).collect();
    let has_star = list.split(|c: char| c == ',' || c.is_whitespace()).any(|e| e == "*");
    // The matcher tells what it would send to a proxy: whatever the list does not have.
    let others = Matcher::builder().all("http://proxy.invalid").no(entries.join(",")).build();
    has_star || others.intercept(url).is_none()
}

/// Whether a URL's host is this machine without a look at any name service.
pub fn is_loopback(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase();
    match host.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
        // Linux takes 0.0.0.0 and :: for loopback where somebody connects to them.
        Ok(ip) => ip.is_loopback() || ip.is_unspecified(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

/// Whether the system would take a URL's host for an address that this is not written as: `127.1` and
/// `0x7f000001` are 127.0.0.1 to it, and to us another host's name.
pub fn is_short_address(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_number = match last.strip_prefix("0x") {
        Some(hex) => hex.bytes().all(|b| b.is_ascii_hexdigit()),
        None => !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit()),
    };
    is_number && host.parse::<IpAddr>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_with_all_its_numbers() {
        for short in
            ["127.1", "127.0.1", "2130706433", "0x7f000001", "0X7F.1", "0177.0.0.1", "127.1."]
        {
            assert!(is_short_address(short), "{short}");
        }
        for fine in ["127.0.0.1", "127.0.0.1.", "[::1]", "[::ffff:127.0.0.1]", "localhost", "a1"] {
            assert!(!is_short_address(fine), "{fine}");
        }
        assert!(!is_short_address("1.example.org") && !is_short_address("advice.x0x1"));
    }

    const PROXY: &str = "http://proxy.example:3128";

    /// The proxy's host for a URL, with these variables set.
    fn proxy(url: &str, variables: &[(&str, &str)]) -> Option<String> {
        let of = |name: &str| {
            variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.to_string())
        };
        for_url(&url.parse().unwrap(), of).unwrap().map(|proxy| proxy.host().to_string())
    }

    #[test]
    fn a_service_on_loopback_is_asked_directly_whatever_the_variables_say() {
        let loopback = [
            "127.0.0.1",
            "127.9.9.9",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "localhost",
            "LocalHost.",
            "0.0.0.0",
            "advice.localhost",
        ];
        for name in FOR_HTTP.iter().chain(&FOR_HTTPS) {
            for host in loopback {
                for scheme in ["http", "https"] {
                    let url = format!("{scheme}://{host}:8750");
                    assert_eq!(proxy(&url, &[(name, PROXY)]), None, "{name} {url}");
                }
            }
        }
        for host in ["128.0.0.1", "[::2]", "localhost.example", "notlocalhost"] {
            let url = format!("http://{host}:8750");
            assert!(proxy(&url, &[("ALL_PROXY", PROXY)]).is_some(), "{url}");
        }
    }

    #[test]
    fn the_scheme_chooses_the_variable_and_all_proxy_comes_last() {
        let (http, https) = ("http://advice.example", "https://advice.example");
        let of = |url, name| proxy(url, &[(name, PROXY)]).is_some();
        for name in ["http_proxy", "HTTP_PROXY"] {
            assert!(of(http, name) && !of(https, name), "{name}");
        }
        for name in ["https_proxy", "HTTPS_PROXY"] {
            assert!(!of(http, name) && of(https, name), "{name}");
        }
        for name in ["all_proxy", "ALL_PROXY"] {
            assert!(of(http, name) && of(https, name), "{name}");
        }
        let both = [("ALL_PROXY", PROXY), ("HTTP_PROXY", "http://other.example")];
        assert_eq!(proxy(http, &both).as_deref(), Some("other.example"));
        assert_eq!(proxy(http, &[("http_proxy", " ")]), None);
    }

    #[test]
    fn no_proxy_names_hosts_domains_addresses_and_networks() {
        let direct = |host: &str, list: &str| {
            let variables = [("HTTP_PROXY", PROXY), ("NO_PROXY", list)];
            proxy(&format!("http://{host}:8750"), &variables).is_none()
        };
        for (host, list) in [
            ("advice.example", "advice.example"),
            ("advice.example", "example"),
            ("advice.example", ".example"),
            ("advice.example", "*.example"),
            ("Advice.Example", "other.test, EXAMPLE"),
            ("advice.example", "other.test advice.example"),
            ("192.0.2.7", "192.0.2.7"),
            ("192.0.2.7", "192.0.2.0/24"),
            ("[2001:db8::7]", "2001:db8::7"),
            ("[2001:db8::7]", "2001:db8::/32"),
            ("advice.example", "*"),
            ("192.0.2.7", "*"),
        ] {
            assert!(direct(host, list), "{host} {list}");
        }
        for (host, list) in [
            ("advice.example", "other.test"),
            ("advice.example", "vice.example"),
            ("192.0.2.7", "192.0.3.0/24"),
            ("advice.example", ""),
        ] {
            assert!(!direct(host, list), "{host} {list}");
        }
    }

    #[test]
    fn a_variable_that_names_no_proxy_is_refused_without_its_password() {
        let of = |_: &str| Some("ftp://me:secret@proxy.example".to_string());
        let why = for_url(&"http://advice.example".parse().unwrap(), of).unwrap_err();
        assert!(why.starts_with("http_proxy is no URL of a proxy"), "{why}");
        assert!(!why.contains("secret"), "{why}");
    }
}
