// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The paper's own interface [EN §3.2.1, §3.3.1]: XML-RPC over HTTP at /RPC2.
//!
//! `EnableGetBufferSize(host)` → bytes; `EnableGetNetInfo(host)` → struct;
//! `EnableGetAdvice(client, remaining_bytes)` → struct. What is not known is left out of a
//! struct; a buffer that is not known is a fault.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use dxr::{Fault, FaultResponse, MethodCall, MethodResponse, Value};

use super::book::Answered;
use super::problem::Problem;
use super::Shared;
use crate::advice::answer::Switch;
use crate::record::destination;
use crate::time::format;

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

pub async fn call(State(service): State<Shared>, body: Bytes) -> Result<Response, Problem> {
    let call = std::str::from_utf8(&body).ok().and_then(|text| MethodCall::from_xml(text).ok());
    let answer = match call {
        Some(call) => answer(&service, &call.name, &call.params).await,
        None => Err(fault(NOT_WELL_FORMED, "this is no XML-RPC call")),
    };
    let text = match answer {
        Ok(value) => MethodResponse { value }.to_xml(),
        Err(fault) => FaultResponse { fault }.to_xml(),
    };
    let text = format!("<?xml version=\"1.0\"?>\n{}", text.unwrap_or_default());
    Ok(([(CONTENT_TYPE, "text/xml")], text).into_response())
}

async fn answer(service: &Shared, method: &str, params: &[Value]) -> Answer {
    match (method, params) {
        ("EnableGetBufferSize", [Value::String(host)]) => buffer_size(service, host).await,
        ("EnableGetNetInfo", [Value::String(host)]) => net_info(service, host).await,
        ("EnableGetAdvice", [Value::String(client), remaining]) => {
            let bytes = length(remaining).ok_or_else(|| {
                fault(WRONG_PARAMETERS, "remaining_bytes is a number, at least 0")
            })?;
            advice(service, client, bytes).await
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
        _ => Err(fault(NO_SUCH_METHOD, "no such method: system.listMethods tells which there are")),
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

/// Advice for a host that may be a name: history is kept by address as a rule.
async fn ask(service: &Shared, host: &str) -> Result<Arc<Answered>, Fault> {
    let internal = |_| fault(INTERNAL, "the history cannot be read at present");
    let dst = destination(host).map_err(|e| fault(WRONG_PARAMETERS, e.to_string()))?;
    let answer = service.book.now(&dst).await.map_err(internal)?;
    if answer.advice.computed_from.hops > 0 || dst.parse::<std::net::IpAddr>().is_ok() {
        return Ok(answer);
    }
    for address in addresses(&dst).await {
        let found = service.book.now(&address).await.map_err(internal)?;
        if found.advice.computed_from.hops > 0 {
            return Ok(found);
        }
    }
    Ok(answer)
}

async fn addresses(name: &str) -> Vec<String> {
    let lookup = tokio::net::lookup_host((name, 0));
    let found = tokio::time::timeout(Duration::from_secs(1), lookup).await;
    let found = found.into_iter().flatten().flatten();
    found.map(|a: SocketAddr| a.ip().to_canonical().to_string()).take(8).collect()
}

async fn buffer_size(service: &Shared, host: &str) -> Answer {
    let answer = ask(service, host).await?;
    let advice = &answer.advice;
    advice.buffer_bytes.map(number).ok_or_else(|| {
        let missing = match advice.rtt_us {
            _ if advice.computed_from.hops == 0 => advice.because.as_str(),
            None => {
                "no fresh record tells the RTT, and no ping: report rtt_us, or test the path with \
                 `imtcp agent --ping`"
            }
            Some(_) => "no record tells the capacity, and past days not the available bandwidth",
        };
        fault(UNKNOWN, format!("not known: {missing}"))
    })
}

async fn net_info(service: &Shared, host: &str) -> Answer {
    let answer = ask(service, host).await?;
    let (advice, from) = (&answer.advice, &answer.advice.computed_from);
    let mut info = common(&answer);
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
async fn advice(service: &Shared, client: &str, bytes: u64) -> Answer {
    let answer = ask(service, client).await?;
    let advice = &answer.advice;
    service.metrics.count_advice(advice);
    let mut reply = common(&answer);
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

fn common(answer: &Answered) -> BTreeMap<String, Value> {
    let advice = &answer.advice;
    let mut all = BTreeMap::from([
        ("host".into(), Value::String(advice.dst.clone())),
        ("known".into(), Value::Boolean(advice.available_bps.is_some())),
        ("because".into(), Value::String(advice.because.clone())),
    ]);
    if let Some(us) = advice.rtt_us {
        all.insert("rtt_us".into(), number(us));
    }
    if let Some(bps) = advice.available_bps {
        all.insert("available_bps".into(), number(bps));
    }
    all
}
