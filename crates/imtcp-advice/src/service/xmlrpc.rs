// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The paper's own interface [EN §3.2.1, §3.3.1]: XML-RPC over HTTP at /RPC2.
//!
//! `EnableGetBufferSize(host)` → bytes; `EnableGetNetInfo(host)` → struct;
//! `EnableGetAdvice(client, remaining_bytes)` → struct. What is not known is left out of a
//! struct; a buffer that is not known is a fault.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{ConnectInfo, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use dxr::{Fault, FaultResponse, MethodCall, MethodResponse, Value};
use imtcp_client::destination::destination;
use imtcp_client::time::format;
use quick_xml::events::Event;

use super::cached_path::Answered;
use super::guard::Right;
use super::problem::Problem;
use super::Shared;
use crate::advice::answer::Switch;

/// Codes as the XML-RPC fault code conventions have them.
const NOT_WELL_FORMED: i32 = -32700;
const NO_SUCH_METHOD: i32 = -32601;
const WRONG_PARAMETERS: i32 = -32602;
const INTERNAL: i32 = -32603;
/// Ours: the history does not tell.
const UNKNOWN: i32 = 1;

type Answer = Result<Value, Fault>;

fn fault(code: i32, text: impl Into<String>) -> Fault {
    Fault::new(code, text.into())
}

/// Elements within one another in a call: ours have five, and dxr's parser calls itself for each.
const DEEPEST: usize = 32;

pub async fn call(
    State(service): State<Shared>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let caller = Caller {
        resolves_any_name: service.access().has(Right::Write, &headers),
        service: &service,
        client: client.ip(),
    };
    let answer = match parse(&body) {
        Ok(call) => caller.answer(&call.name, &call.params).await,
        Err(fault) => Err(fault),
    };
    let text = match answer {
        Ok(value) => MethodResponse { value }.to_xml(),
        Err(fault) => FaultResponse { fault }.to_xml(),
    };
    let text = format!("<?xml version=\"1.0\"?>\n{}", text.unwrap_or_default());
    Ok(([(CONTENT_TYPE, "text/xml")], text).into_response())
}

fn parse(body: &[u8]) -> Result<MethodCall<'_>, Fault> {
    let wrong = || fault(NOT_WELL_FORMED, "this is no XML-RPC call");
    let text = std::str::from_utf8(body).map_err(|_| wrong())?;
    check_depth(text)?;
    MethodCall::from_xml(text).map_err(|_| wrong())
}

/// Refuses what nests too deep, before a parser that recurses has it. Both are of quick-xml: they
/// agree on what an element is.
fn check_depth(text: &str) -> Result<(), Fault> {
    let mut reader = quick_xml::Reader::from_str(text);
    let mut depth = 0_usize;
    loop {
        match reader.read_event() {
            Ok(Event::Start(_)) => depth += 1,
            Ok(Event::End(_)) => depth -= 1,
            Ok(Event::Eof) => return Ok(()),
            Ok(Event::DocType(_)) | Err(_) => {
                return Err(fault(NOT_WELL_FORMED, "this is no XML-RPC call"));
            }
            Ok(_) => {}
        }
        if depth > DEEPEST {
            let text = format!("the call nests deeper than {DEEPEST} elements");
            return Err(fault(NOT_WELL_FORMED, text));
        }
    }
}

/// An answer about a host, and its reason.
struct Found {
    answer: Arc<Answered>,
    because: String,
}

impl Found {
    fn new(answer: Arc<Answered>) -> Self {
        Found { because: answer.advice.because.clone(), answer }
    }
}

const NOT_LOOKED_UP: &str = "there is no history of this name, and names are looked up for who may write \
                             and for clients alone: ask by address, send a token, or add it with PUT \
                             /v1/clients/NAME";

/// One call, with what its sender may have done for it.
struct Caller<'a> {
    service: &'a Shared,
    client: IpAddr,
    /// A stranger's names are looked up only where they are known.
    resolves_any_name: bool,
}

impl Caller<'_> {
    async fn answer(&self, method: &str, params: &[Value]) -> Answer {
        match (method, params) {
            ("EnableGetBufferSize", [Value::String(host)]) => self.buffer_size(host).await,
            ("EnableGetNetInfo", [Value::String(host)]) => self.net_info(host).await,
            ("EnableGetAdvice", [Value::String(client), remaining]) => {
                let bytes = length(remaining).ok_or_else(|| {
                    fault(WRONG_PARAMETERS, "remaining_bytes is a number, at least 0")
                })?;
                self.advice(client, bytes).await
            }
            ("EnableGetBufferSize" | "EnableGetNetInfo", _) => {
                Err(fault(WRONG_PARAMETERS, format!("{method} takes a host, as a string")))
            }
            ("EnableGetAdvice", _) => Err(fault(
                WRONG_PARAMETERS,
                "EnableGetAdvice takes a client's address, as a string, and the remaining bytes",
            )),
            ("system.listMethods", []) => {
                let names = ["EnableGetAdvice", "EnableGetBufferSize", "EnableGetNetInfo"];
                Ok(Value::Array(names.map(|n| Value::String(n.into())).into()))
            }
            _ => {
                let text = "no such method: system.listMethods tells which there are";
                Err(fault(NO_SUCH_METHOD, text))
            }
        }
    }

    /// Advice for a host that may be a name: history is kept by address as a rule.
    async fn ask(&self, host: &str) -> Result<Found, Fault> {
        let internal = |_| fault(INTERNAL, "the history cannot be read at present");
        let dst = destination(host).map_err(|e| fault(WRONG_PARAMETERS, e.to_string()))?;
        let cache = &self.service.cache;
        let now = async |dst: &str| {
            let answer = cache.now(self.client, dst).await;
            answer.map_err(|problem| fault(INTERNAL, problem.detail))
        };
        let answer = now(&dst).await?;
        let has_history = |answer: &Answered| answer.advice.computed_from.hops > 0;
        if has_history(&answer) || dst.parse::<std::net::IpAddr>().is_ok() {
            return Ok(Found::new(answer));
        }
        if !self.may_resolve(&dst).await.map_err(internal)? {
            return Ok(Found { answer, because: NOT_LOOKED_UP.into() });
        }
        for address in self.service.names.addresses(&dst).await.iter() {
            let found = now(address).await?;
            if has_history(&found) {
                return Ok(Found::new(found));
            }
        }
        Ok(Found::new(answer))
    }

    async fn may_resolve(&self, name: &str) -> crate::Result<bool> {
        let store = self.service.cache.store();
        Ok(self.resolves_any_name || store.is_client(name).await? || store.has_path(name).await?)
    }

    async fn buffer_size(&self, host: &str) -> Answer {
        let found = self.ask(host).await?;
        let advice = &found.answer.advice;
        advice.buffer_bytes.map(number).ok_or_else(|| {
            let missing = match advice.rtt_us {
                _ if advice.computed_from.hops == 0 => found.because.as_str(),
                None => {
                    "the newest record does not tell the RTT, nor do a fresh test or a ping: report rtt_us, or \
                     test the path with `imtcp-agent feed --ping`"
                }
                Some(_) => {
                    "no record tells the capacity, and past days not the available bandwidth"
                }
            };
            fault(UNKNOWN, format!("not known: {missing}"))
        })
    }

    async fn net_info(&self, host: &str) -> Answer {
        let found = self.ask(host).await?;
        let (advice, from) = (&found.answer.advice, &found.answer.advice.computed_from);
        let mut info = common(&found);
        let mut put = |name: &str, value: Option<u64>| {
            if let Some(value) = value {
                info.insert(name.into(), number(value));
            }
        };
        put("buffer_bytes", advice.buffer_bytes);
        put("capacity_bps", from.capacity_bps.map(|c| c as u64));
        put("available_low_bps", advice.available_low_bps);
        put("available_high_bps", advice.available_high_bps);
        put("newest_bps", from.newest_bps);
        put("sample_count", Some(advice.sample_count));
        if let Some(at) = &from.newest_at {
            info.insert("newest_at".into(), Value::String(at.clone()));
        }
        Ok(Value::Struct(info))
    }

    /// The four values of the paper's reply, and how long they hold.
    async fn advice(&self, client: &str, bytes: u64) -> Answer {
        let found = self.ask(client).await?;
        let advice = &found.answer.advice;
        self.service.metrics.count_advice(advice);
        let mut reply = common(&found);
        let on = advice.congestion_control == Switch::On;
        reply.insert("congestion_control".into(), Value::Boolean(on));
        reply.insert("mode".into(), word(advice.mode)?);
        reply.insert("verdict".into(), word(advice.verdict)?);
        reply.insert("reason".into(), word(advice.reason)?);
        reply.insert("next_advice_at".into(), Value::String(format(advice.next_advice_at)));
        let next_s = (advice.next_advice_at - advice.at) as f64 / 1e6;
        reply.insert("next_advice_s".into(), Value::Double(next_s));
        reply.insert("valid_until".into(), Value::String(format(advice.valid_until)));
        if let Some(seconds) = advice.transfer_s(Some(bytes)) {
            reply.insert("transfer_s".into(), Value::Double(seconds));
        }
        if let Some(bytes) = advice.buffer_bytes {
            reply.insert("buffer_bytes".into(), number(bytes));
        }
        Ok(Value::Struct(reply))
    }
}

/// XML-RPC's integers have 32 bits: longer files come as a double or as a string.
fn length(value: &Value) -> Option<u64> {
    match value {
        Value::Integer(n) => u64::try_from(*n).ok(),
        Value::Long(n) => u64::try_from(*n).ok(),
        Value::Double(n) if *n >= 0.0 && *n <= 1e18 => Some(*n as u64),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Integers where they fit, else doubles.
fn number(n: u64) -> Value {
    i32::try_from(n).map_or(Value::Double(n as f64), Value::Integer)
}

/// As JSON spells it.
fn word(value: impl serde::Serialize) -> Answer {
    let value = serde_json::to_value(value).ok();
    let word = value.as_ref().and_then(|v| v.as_str());
    Ok(Value::String(word.ok_or_else(|| fault(INTERNAL, "no word for the answer"))?.into()))
}

fn common(found: &Found) -> BTreeMap<String, Value> {
    let advice = &found.answer.advice;
    let mut all = BTreeMap::from([
        ("host".into(), Value::String(advice.dst.clone())),
        ("known".into(), Value::Boolean(advice.available_bps.is_some())),
        ("because".into(), Value::String(found.because.clone())),
    ]);
    if let Some(us) = advice.rtt_us {
        all.insert("rtt_us".into(), number(us));
    }
    if let Some(bps) = advice.available_bps {
        all.insert("available_bps".into(), number(bps));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn call_with(value: &str) -> String {
        format!(
            "<?xml version=\"1.0\"?><methodCall><methodName>EnableGetNetInfo</methodName><params>\
             <param><value>{value}</value></param></params></methodCall>"
        )
    }

    fn nested(open: &str, close: &str, times: usize) -> String {
        call_with(&format!("{}<int>1</int>{}", open.repeat(times), close.repeat(times)))
    }

    #[test]
    fn a_call_that_nests_deep_is_refused_whatever_it_nests() {
        let array = ("<array><data><value>", "</value></data></array>");
        let member = ("<struct><member><name>a</name><value>", "</value></member></struct>");
        for (open, close) in [array, member, ("<a>", "</a>"), ("<a b='c'>", "<!-- </a> --></a>")] {
            for times in [40, 2_000, 100_000] {
                let fault = parse(nested(open, close, times).as_bytes()).unwrap_err();
                assert!(fault.string().contains("nests deeper than 32"), "{open}: {fault:?}");
            }
        }
        let (open, close) = array;
        assert!(parse(nested(open, close, 3).as_bytes()).is_ok());
    }

    #[test]
    fn what_is_no_call_is_a_fault() {
        for wrong in ["", "x", "<a>", "</a>", "<a></b>", "<!DOCTYPE a []><a/>", "\u{0}", "<", "&;"]
        {
            assert_eq!(parse(wrong.as_bytes()).unwrap_err().code(), NOT_WELL_FORMED, "{wrong}");
        }
        assert_eq!(parse(b"\xff\xfe").unwrap_err().code(), NOT_WELL_FORMED);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_call_or_a_fault(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn any_tags_are_a_call_or_a_fault(
            tags in proptest::collection::vec(
                "</?(value|array|data|struct|member|name|int|i8|double|base64|param)>|-?[0-9.]{1,9}|&[a-z]{0,4};?",
                0..200,
            )
        ) {
            let _ = parse(call_with(&tags.concat()).as_bytes());
        }
    }
}
