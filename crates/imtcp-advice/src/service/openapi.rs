// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The description of the interface, from the same source as the handlers.

use std::sync::LazyLock;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use super::{clients, reports, routes, timeline};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "imtcp advice",
        description = "What a transfer should do now, and until when. Beside this there is \
                       XML-RPC at /RPC2 and a page at /. Any request may be answered with a \
                       problem document of status 401 or 403 (token), 408 (too slow), 413 (too \
                       large), 421 (host's name), 429 (too many) or 503 (the history is away)."
    ),
    paths(
        routes::advice,
        routes::paths,
        routes::path,
        routes::change_path,
        routes::forget_path,
        routes::history,
        timeline::timeline,
        clients::clients,
        clients::add,
        clients::remove,
        reports::reports,
        routes::metrics,
        routes::health
    ),
    modifiers(&Tokens)
)]
struct Api;

struct Tokens;

impl Modify for Tokens {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = api.components.get_or_insert_default();
        components.add_security_scheme("write", SecurityScheme::Http(bearer));
    }
}

pub async fn document() -> Response {
    static TEXT: LazyLock<String> = LazyLock::new(|| Api::openapi().to_json().unwrap_or_default());
    ([(CONTENT_TYPE, "application/json")], TEXT.as_str()).into_response()
}
