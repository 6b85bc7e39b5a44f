// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The description of the interface, from the same source as the handlers.

mod finish;
use std::sync::LazyLock;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use imtcp_client::destination::{Destination, DestinationOrAll, DestinationOrNone};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use super::{clients, reports, routes, timeline, Shared};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "imtcp advice",
        description = "What a transfer should do now, and until when. XML-RPC at /RPC2 and the page \
                       at / are not described here. Another path gets a problem document of status \
                       404, another method one of status 405. A request that is no HTTP is refused \
                       with 400 or 431 and no document."
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
    components(schemas(Destination, DestinationOrAll, DestinationOrNone)),
    modifiers(&Tokens)
)]
struct Api;

struct Tokens;

impl Modify for Tokens {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        let components = api.components.get_or_insert_default();
        for (name, whose) in [
            ("write", "A token of the service's --token-file"),
            ("read", "A token of its --read-token-file, or one for writing"),
        ] {
            let bearer =
                HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(whose)).build();
            components.add_security_scheme(name, SecurityScheme::Http(bearer));
        }
    }
}

/// The patterns of all routes that it describes.
pub fn routes() -> Vec<String> {
    Api::openapi().paths.paths.into_keys().collect()
}

/// Whether reading needs a token depends on how the service was started.
pub async fn document(State(service): State<Shared>) -> Response {
    static OPEN: LazyLock<String> = LazyLock::new(|| finish::document(false));
    static FOR_READERS: LazyLock<String> = LazyLock::new(|| finish::document(true));
    let text = if service.access().read.is_some() { &FOR_READERS } else { &OPEN };
    ([(CONTENT_TYPE, "application/json")], text.as_str()).into_response()
}
