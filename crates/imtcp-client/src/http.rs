// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Requests to the advice service.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use imtcp_common::{exit, format, name};
use jiff::fmt::rfc2822::DateTimeParser;
use ureq::http::Uri;
use ureq::tls::{parse_pem, PemItem, RootCerts, TlsConfig};
use ureq::Agent;

use crate::answers::{Advice, Answer, Problem, Receipt, WrongRecord};
use crate::proxy;
use crate::service::ServiceArgs;
use crate::token_file;

pub struct Client {
    agent: Agent,
    url: String,
    token: Option<String>,
    dated: Mutex<Option<Dated>>,
}

/// The service's clock, by the header `Date` of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Dated {
    /// In whole seconds.
    pub date_us: i64,
    pub asked: Instant,
    pub answered: Instant,
}

/// An answer that is not 2xx, or none at all.
#[derive(Debug)]
pub enum Failure {
    /// The service could not be reached, or did not end its answer.
    Away(String),
    /// Somebody else answered: a proxy on the way, or another program at this address.
    Stranger(String),
    /// The service answered, with a problem document of its own: no.
    Refused { status: u16, detail: String },
    /// It stored nothing of a batch, because of these records.
    WrongRecords(Vec<WrongRecord>),
}

impl Failure {
    /// Did the service itself answer?
    pub fn is_of_service(&self) -> bool {
        matches!(self, Failure::Refused { .. } | Failure::WrongRecords(_))
    }
}

/// For a terminal: whoever answered wrote most of it.
impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let text = match self {
            Failure::Away(why) => format!("it does not answer: {why}"),
            Failure::Stranger(what) => what.clone(),
            Failure::Refused { detail, .. } => detail.clone(),
            Failure::WrongRecords(wrong) => {
                format!("it refuses {}", format::count(wrong.len(), "record"))
            }
        };
        f.write_str(&format::short_line(&text))
    }
}

impl std::error::Error for Failure {}

/// A service that is silent for so long is away.
const SILENCE: Duration = Duration::from_secs(10);
/// bit/s. A slower line does not carry a report within the service's 15 s either.
const LEAST_BPS: u64 = 32_000;
/// The type of the service's refusals (RFC 9457).
const PROBLEM: &str = "application/problem+json";

/// How long so many bytes take on the slowest line.
fn on_the_way(bytes: u64) -> Duration {
    Duration::from_millis(bytes * 8 * 1000 / LEAST_BPS)
}

impl Client {
    pub fn new(args: &ServiceArgs) -> Result<Self> {
        let uri = args.url.parse::<Uri>().ok();
        let is_http = |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https"));
        let Some((uri, host)) =
            uri.filter(is_http).and_then(|uri| Some((uri.clone(), uri.host()?.to_string())))
        else {
            let text =
                format!("'{}' is no URL of a service: write http://… or https://…", args.url);
            return Err(exit::usage(text));
        };
        if proxy::is_short_address(&host) {
            let text = format!("'{host}' is no address: write all four numbers, as 127.0.0.1");
            return Err(exit::usage(text));
        }
        let token = match &args.token_file {
            None => None,
            Some(path) => {
                let token = token_file::read(path)?.swap_remove(0);
                if uri.scheme_str() == Some("http") && !proxy::is_loopback(&host) {
                    warn_of_token_in_the_clear(path, &host);
                }
                Some(token)
            }
        };
        let mut tls = TlsConfig::builder();
        if let Some(path) = &args.ca {
            let shown = path.display();
            let pem = std::fs::read(path).with_context(|| format!("--ca {shown}"))?;
            let certificates = parse_pem(&pem).filter_map(|item| match item {
                Ok(PemItem::Certificate(certificate)) => Some(certificate),
                _ => None,
            });
            let certificates: Vec<_> = certificates.collect();
            if certificates.is_empty() {
                bail!("--ca {shown}: it holds no certificate: name the one (PEM) of who signed the service's");
            }
            tls = tls.root_certs(RootCerts::from(certificates));
        }
        let config = Agent::config_builder()
            .timeout_connect(Some(SILENCE))
            .timeout_per_read(Some(SILENCE))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(proxy::for_url(&uri, |name| std::env::var(name).ok()).map_err(exit::usage)?)
            .tls_config(tls.build())
            .user_agent(concat!("imtcp/", env!("CARGO_PKG_VERSION")))
            .build();
        let url = args.url.trim_end_matches('/').to_string();
        Ok(Client { agent: config.into(), url, token, dated: Mutex::new(None) })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn get<A: Answer>(&self, path: &str) -> Result<A, Failure> {
        Ok(self.ask(path, &[])?.0)
    }

    pub fn advice(&self, query: &[(&str, String)]) -> Result<Advice, Failure> {
        let (advice, json) = self.ask::<Advice>("/v1/advice", query)?;
        Ok(Advice { json, ..advice })
    }

    /// An answer and its text.
    fn ask<A: Answer>(&self, path: &str, query: &[(&str, String)]) -> Result<(A, String), Failure> {
        let request = self.agent.get(format!("{}{path}", self.url)).config();
        let mut request =
            request.timeout_global(Some(SILENCE + on_the_way(A::USUAL_BYTES))).build();
        for (key, value) in query {
            request = request.query(key, value);
        }
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        self.answer(|| request.call())
    }

    pub fn report(&self, body: &[u8]) -> Result<Receipt, Failure> {
        // The system takes a body at once. Then it is on its way while the answer is waited for.
        let silence = SILENCE + on_the_way(body.len() as u64);
        let request = self.agent.post(format!("{}/v1/reports", self.url)).config();
        let request = request.timeout_per_read(Some(silence));
        let mut request = request.timeout_global(Some(SILENCE + silence)).build();
        request = request.header("Content-Type", "application/json");
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        Ok(self.answer(|| request.send(body))?.0)
    }

    /// The date of the newest answer, once.
    pub fn take_date(&self) -> Option<Dated> {
        self.dated.lock().unwrap_or_else(|e| e.into_inner()).take()
    }

    fn answer<A: Answer>(&self, ask: impl FnOnce() -> Answered) -> Result<(A, String), Failure> {
        let asked = Instant::now();
        let result = ask();
        let dated = result.as_ref().ok().and_then(|response| {
            let date = DateTimeParser::new().parse_timestamp(header(response, "date")?).ok()?;
            Some(Dated { date_us: date.as_microsecond(), asked, answered: Instant::now() })
        });
        let answer = answer(result);
        // A stranger's clock is nobody's affair.
        let may_be_of_service = answer.as_ref().err().is_none_or(Failure::is_of_service);
        let dated = dated.filter(|_| may_be_of_service);
        *self.dated.lock().unwrap_or_else(|e| e.into_inner()) = dated;
        answer.map_err(|failure| self.with_remedy(failure))
    }

    /// Adds what the user can do: the service speaks to programs.
    fn with_remedy(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Refused { status: 401, .. } if self.token.is_none() => Failure::Refused {
                status: 401,
                detail: "it wants a token: name a file with one by --token-file (with `imtcp run` \
                         --advise-token-file)"
                    .into(),
            },
            Failure::Refused { status: 404, detail } => Failure::Refused {
                status: 404,
                detail: format!("{detail}; is the path of its URL right?"),
            },
            other => other,
        }
    }
}

type Response = ureq::http::Response<ureq::Body>;
type Answered = Result<Response, ureq::Error>;

/// Says so once: the agent makes several clients of one service.
fn warn_of_token_in_the_clear(token_file: &Path, host: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        // The agent goes on where nobody can read what it says.
        let _ = writeln!(
            io::stderr(),
            "{}: warning: the token of {} goes to {host} unencrypted, and whoever sees it on the way \
             can use it: give the service --tls-cert and --tls-key, and write https://",
            name::of_program(),
            token_file.display()
        );
    });
}

/// Says a TLS library's error in words for people who do not know its code.
fn with_what_to_do(why: &str) -> String {
    let hints = [
        ("CaUsedAsEndEntity", "its certificate is that of an authority: make one with CA:FALSE"),
        (
            "BadSignature",
            "its certificate is not by the one of that name in --ca: name who signed it",
        ),
        ("UnknownIssuer", "nobody known has signed its certificate: name who did with --ca"),
        ("not valid for name", "its certificate is for another name than that of --url"),
        ("certificate expired", "its certificate is too old, or this machine's clock is wrong"),
        (
            "certificate not valid yet",
            "its certificate is too new, or this machine's clock is wrong",
        ),
        ("http parse", "it does not speak HTTP: does its URL begin with https://?"),
        ("InvalidContentType", "it does not speak TLS: does its URL begin with http://?"),
    ];
    let hint = hints.into_iter().find(|(part, _)| why.contains(part));
    hint.map_or_else(|| why.to_string(), |(_, hint)| format!("{hint} ({why})"))
}

/// Reads an answer, or why it is none.
fn answer<A: Answer>(result: Answered) -> Result<(A, String), Failure> {
    let mut response = result.map_err(away)?;
    let status = response.status();
    if status.is_success() {
        let text = read(&mut response, A::NAME, A::MOST_BYTES)?;
        return match serde_json::from_str(&text) {
            Ok(answer) => Ok((answer, text)),
            Err(e) if e.is_data() => Err(Failure::Stranger(format!(
                "what it answers is no {}: is this an imtcp advice service?",
                A::NAME
            ))),
            Err(_) => Err(Failure::Stranger(stranger(&response))),
        };
    }
    // A proxy's own refusal says nothing of what was sent.
    if !header(&response, "content-type").is_some_and(|kind| is_type(kind, PROBLEM)) {
        return Err(Failure::Stranger(stranger(&response)));
    }
    let text = read(&mut response, "refusal", Problem::MOST_BYTES)?;
    let Ok(problem) = serde_json::from_str::<Problem>(&text) else {
        return Err(Failure::Stranger(stranger(&response)));
    };
    if !problem.refused.is_empty() {
        return Err(Failure::WrongRecords(problem.refused));
    }
    let status = status.as_u16();
    // A remedy may follow it on the same line.
    let detail = problem.detail.map(|detail| format::others_text(&detail));
    Err(Failure::Refused { status, detail: detail.unwrap_or(format!("HTTP status {status}")) })
}

fn read(response: &mut Response, name: &str, most_bytes: u64) -> Result<String, Failure> {
    let text = response.body_mut().with_config().limit(most_bytes).read_to_string();
    text.map_err(|e| match e {
        ureq::Error::BodyExceedsLimit(_) => Failure::Stranger(format!(
            "what it answers is longer than any {name}: is this an imtcp advice service?"
        )),
        e => away(e),
    })
}

fn away(e: ureq::Error) -> Failure {
    match e {
        ureq::Error::Io(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
            Failure::Away("connection refused".into())
        }
        e => Failure::Away(with_what_to_do(&e.to_string())),
    }
}

fn header<'r>(response: &'r Response, name: &str) -> Option<&'r str> {
    response.headers().get(name)?.to_str().ok()
}

/// Whether a Content-Type is this one; parameters may follow.
fn is_type(content_type: &str, wanted: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case(wanted)
}

/// Who answered in the place of the service, as far as the answer says it.
fn stranger(response: &Response) -> String {
    let told = |name| header(response, name).map(format::others_text);
    let by = told("server").map_or(String::new(), |server| format!(" by {server}"));
    let kind = told("content-type").unwrap_or("no type".into());
    let status = response.status().as_u16();
    format!(
        "HTTP status {status}{by} ({kind}): no imtcp advice service answers so, is a proxy before it \
         or another program there?"
    )
}
