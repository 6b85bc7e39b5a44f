// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The page: one file, put together from four, and nothing from elsewhere.

use std::sync::LazyLock;

use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

static PAGE: LazyLock<String> = LazyLock::new(|| {
    include_str!("page/page.html").replace("/*style*/", include_str!("page/page.css")).replace(
        "/*script*/",
        concat!(include_str!("page/charts.js"), include_str!("page/page.js")),
    )
});
/// Its own inline script and style, requests to where it came from, nothing else.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

pub async fn page() -> Response {
    let headers = [(CONTENT_TYPE, "text/html; charset=utf-8"), (CONTENT_SECURITY_POLICY, POLICY)];
    (headers, PAGE.as_str()).into_response()
}
