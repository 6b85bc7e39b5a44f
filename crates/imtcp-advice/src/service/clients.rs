// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The clients, for those who administrate them and for the agents that take their peers from here.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, Path, State};
use axum::http::StatusCode;
use axum::Json;
use imtcp_client::destination::{destination, Destination};
use imtcp_client::peer::{self, is_peer};
use imtcp_client::time::now_us;
use serde::Serialize;
use utoipa::ToSchema;

use super::problem::Problem;
use super::Shared;
use crate::store::clients::Client;

#[derive(Debug, Serialize, ToSchema)]
pub struct Clients {
    clients: Vec<Client>,
}

/// The destinations that matter: whom agents with --peers-from-service report on and test
#[utoipa::path(get, path = "/v1/clients", tag = "clients", responses((status = 200, description = "All of them", body = Clients)))]
pub async fn clients(
    State(service): State<Shared>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
) -> Result<Json<Clients>, Problem> {
    let cache = Arc::clone(&service.cache);
    let read = async move { Ok(Clients { clients: cache.store().clients().await? }) };
    Ok(Json(service.turns.run(client.ip(), read).await?))
}

/// Add a client; one that is there stays as it is. At most 10 000
#[utoipa::path(put, path = "/v1/clients/{dst}", tag = "clients", operation_id = "add_client", security(("write" = [])),
    params(("dst" = Destination, Path, description = "An address, or a name that agents look up. Loopback, link-local, multicast, broadcast and unspecified addresses are refused")), responses(
    (status = 200, description = "The client", body = Client),
))]
pub async fn add(
    State(service): State<Shared>,
    Path(dst): Path<String>,
) -> Result<Json<Client>, Problem> {
    let dst = destination(&dst)?;
    if dst.parse().is_ok_and(|address: IpAddr| !is_peer(address)) {
        return Err(Problem::bad_request(format!("{dst} cannot be a client: {}", peer::RULE)));
    }
    Ok(Json(service.cache.store().add_client(&dst, now_us()).await?))
}

/// Remove a client; its history stays
#[utoipa::path(delete, path = "/v1/clients/{dst}", tag = "clients", operation_id = "remove_client", security(("write" = [])),
    params(("dst" = Destination, Path)), responses(
    (status = 204, description = "It is none any more"),
    (status = 404, description = "No such client", body = Problem,
        content_type = "application/problem+json"),
))]
pub async fn remove(
    State(service): State<Shared>,
    Path(dst): Path<String>,
) -> Result<StatusCode, Problem> {
    let dst = destination(&dst)?;
    if !service.cache.store().remove_client(&dst).await? {
        let detail = "there is no such client: /v1/clients lists those there are";
        return Err(Problem::new(StatusCode::NOT_FOUND, detail));
    }
    Ok(StatusCode::NO_CONTENT)
}
