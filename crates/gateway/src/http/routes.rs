//! The routes of an HTTP server. Parts of a server have routes of their own, which are merged.

use std::sync::Arc;

use axum::Router;
use axum::http::Request;
use axum::response::Response;
use hyper::body::Incoming;
use seqsvr_access::{Access, Caller};
use seqsvr_net::ConnectionPeer;

use super::identity::{Refusal, RequestJudge};

/// Paths with their handlers, a fast handler that runs before them, and the judge of their callers.
#[derive(Clone)]
pub struct Routes {
    pub(super) router: Router,
    fast_handler: Option<Arc<FastHandler>>,
    judge: Arc<RequestJudge>,
}

/// Handler that answers a request without waiting for anything, or leaves it to the router.
type FastHandler = dyn Fn(&Caller, &Request<Incoming>) -> Option<Response> + Send + Sync;

impl Routes {
    /// Returns no path, for a server whose callers are judged by `access`.
    pub fn empty(access: Access) -> Routes {
        Routes::new(Router::new(), access)
    }

    /// Returns these paths, for a server whose callers are judged by `access`.
    pub(super) fn new(router: Router, access: Access) -> Routes {
        Routes {
            router,
            fast_handler: None,
            judge: Arc::new(RequestJudge::new(access)),
        }
    }

    /// Adds the routes of another part of the same server.
    #[must_use]
    pub fn merge(self, other: Routes) -> Routes {
        Routes {
            router: self.router.merge(other.router),
            fast_handler: self.fast_handler.or(other.fast_handler),
            judge: self.judge,
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

    /// Returns who sends a request; None: its path needs no caller, or its handler judges.
    ///
    /// # Errors
    /// The request is refused, for what it shows or for its path.
    pub(super) fn admit(
        &self,
        request: &mut Request<Incoming>,
        peer: &ConnectionPeer,
    ) -> Result<Option<Caller>, Refusal> {
        self.judge.admit(request, peer)
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
