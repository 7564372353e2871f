//! The answer to calls of services that a server does not have.

use tonic::Status;
use tonic::body::Body;
use tonic::service::Routes;

/// Lets `routes` answer calls of services that they do not have with `UNIMPLEMENTED` and this text:
/// which server it is, and which one has them. Without it the answer has no text, and a caller of
/// the wrong address learns nothing.
pub fn reject_other_services(mut routes: Routes, text: &'static str) -> Routes {
    let router = routes.axum_router_mut();
    let answer = async move || Status::unimplemented(text).into_http::<Body>();
    *router = std::mem::take(router).fallback(answer);
    routes
}
