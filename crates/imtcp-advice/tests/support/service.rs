//! A service without a network.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use imtcp_advice::service::Service;
use serde_json::Value;
use tower::ServiceExt;

/// A request's answer, of a client who may write with the token `token`.
pub fn asked(
    service: &Arc<Service>,
    method: &str,
    path: &str,
    body: String,
) -> impl Future<Output = Value> + use<> {
    let request = Request::builder().method(method).uri(path);
    let request = request.header("Authorization", "Bearer token");
    let mut request = request.body(Body::from(body)).unwrap();
    let client = SocketAddr::from(([127, 0, 0, 1], 1));
    request.extensions_mut().insert(ConnectInfo(client));
    let router = service.router();
    async move {
        let answer = router.oneshot(request).await.unwrap();
        let body = axum::body::to_bytes(answer.into_body(), 2 << 20).await.unwrap();
        serde_json::from_slice(&body).unwrap()
    }
}
