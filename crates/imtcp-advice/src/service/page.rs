// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The page: one file, put together from several. It loads nothing but the service's own answers.

use std::sync::LazyLock;

use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use base64::prelude::{Engine as _, BASE64_STANDARD};
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = concat!(
    include_str!("page/format.js"),
    include_str!("page/charts.js"),
    include_str!("page/paths.js"),
    include_str!("page/advice.js"),
    include_str!("page/history.js"),
    include_str!("page/page.js"),
);

static PAGE: LazyLock<String> = LazyLock::new(|| {
    include_str!("page/page.html").replace("/*style*/", STYLE).replace("/*script*/", SCRIPT)
});

/// The browser runs this one script and applies this one style, and asks only where the page came from.
/// `data:` is the empty icon: without it browsers ask for /favicon.ico.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        source(SCRIPT),
        source(STYLE)
    )
});

/// An inline element as a Content-Security-Policy names it.
fn source(text: &str) -> String {
    format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text)))
}

pub async fn page() -> Response {
    let headers =
        [(CONTENT_TYPE, "text/html; charset=utf-8"), (CONTENT_SECURITY_POLICY, POLICY.as_str())];
    (headers, PAGE.as_str()).into_response()
}
