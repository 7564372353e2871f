//! The routes of an HTTP server. Parts of a server have routes of their own, which are merged.

use std::sync::Arc;

use axum::Router;
use axum::http::Request;
use axum::response::Response;
use hyper::body::Incoming;
use seqsvr_access::{Access, Caller};
use seqsvr_net::{ConnectionPeer, judge_caller};

/// Paths with their handlers: a router, and a fast handler that runs before it.
#[derive(Clone, Default)]
pub struct Routes {
    pub(super) router: Router,
    fast_handler: Option<Arc<FastHandler>>,
    access: Option<Access>,
}

/// Handler that answers a request without waiting for anything, or leaves it to the router.
type FastHandler = dyn Fn(&Caller, &Request<Incoming>) -> Option<Response> + Send + Sync;

impl Routes {
    /// Adds the routes of another part.
    #[must_use]
    pub fn merge(self, other: Routes) -> Routes {
        Routes {
            router: self.router.merge(other.router),
            fast_handler: self.fast_handler.or(other.fast_handler),
            access: self.access.or(other.access),
        }
    }

    /// Adds a handler that runs before the router. A server has at most one.
    pub(super) fn with_fast_handler(
        self,
        handler: impl Fn(&Caller, &Request<Incoming>) -> Option<Response> + Send + Sync + 'static,
    ) -> Routes {
        Routes {
            fast_handler: Some(Arc::new(handler)),
            ..self
        }
    }

    /// Adds the judge of callers of numbers. A server has at most one.
    pub(super) fn with_access(self, access: Access) -> Routes {
        Routes {
            access: Some(access),
            ..self
        }
    }

    /// Returns the caller at the other end of a connection; None: it may take no number, or no
    /// route has any.
    pub(super) fn judge(&self, peer: &ConnectionPeer) -> Option<Caller> {
        judge_caller(self.access.as_ref()?, None, Some(peer)).ok()
    }

    /// Answers a request without waiting for anything. None: the router must answer it.
    pub(super) fn try_fast(
        &self,
        caller: &Caller,
        request: &Request<Incoming>,
    ) -> Option<Response> {
        self.fast_handler.as_ref()?(caller, request)
    }
}

impl From<Router> for Routes {
    fn from(router: Router) -> Routes {
        Routes {
            router,
            fast_handler: None,
            access: None,
        }
    }
}
