//! The paths of a door: parts that are put together.

use std::sync::Arc;

use axum::Router;
use axum::http::Request;
use axum::response::Response;
use hyper::body::Incoming;

/// Paths, with their handlers.
#[derive(Clone)]
pub struct Paths {
    pub(super) router: Router,
    at_once: Option<Arc<AtOnce>>,
}

/// Handler that answers a request without waiting for anything, or leaves it to the router.
type AtOnce = dyn Fn(&Request<Incoming>) -> Option<Response> + Send + Sync;

impl Paths {
    /// Adds the paths of another part.
    #[must_use]
    pub fn merge(self, other: Paths) -> Paths {
        Paths {
            router: self.router.merge(other.router),
            at_once: self.at_once.or(other.at_once),
        }
    }

    /// Adds a handler that runs before the router. A door has one at most.
    pub(super) fn with_at_once(
        self,
        at_once: impl Fn(&Request<Incoming>) -> Option<Response> + Send + Sync + 'static,
    ) -> Paths {
        Paths {
            at_once: Some(Arc::new(at_once)),
            ..self
        }
    }

    pub(super) fn at_once(&self, request: &Request<Incoming>) -> Option<Response> {
        self.at_once.as_ref()?(request)
    }
}

impl From<Router> for Paths {
    fn from(router: Router) -> Paths {
        Paths {
            router,
            at_once: None,
        }
    }
}
