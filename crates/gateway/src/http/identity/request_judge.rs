//! Who sends a request.

use std::sync::Arc;

use axum::http::{HeaderMap, Request};
use seqsvr_access::{Access, Caller, MissingRight, Secret};
use seqsvr_net::{ConnectionCaller, ConnectionPeer, judge_caller, take_bearer_token};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::Reason;
use tokio::time::sleep;

use super::route_rule::{RouteRight, right_for};
use crate::http::error::HttpError;
use crate::http::query;
use crate::wrong_secrets::{WRONG_SECRET_DELAY, WrongSecretLog};

/// Field of Tinyid's requests with a token.
const TOKEN_FIELD: &str = "token";

/// Judge of the callers of one server.
pub(in crate::http) struct RequestJudge {
    access: Access,
    wrong_tokens: WrongSecretLog,
}

/// A request that is answered with an error, for what it shows or for its path.
pub(in crate::http) struct Refusal {
    error: HttpError,
    /// Its answer is delayed.
    is_wrong_token: bool,
}

impl From<HttpError> for Refusal {
    fn from(error: HttpError) -> Refusal {
        Refusal {
            error,
            is_wrong_token: false,
        }
    }
}

impl From<MissingRight> for Refusal {
    fn from(missing: MissingRight) -> Refusal {
        let error = RpcError::new(Reason::PermissionDenied, missing.to_string());
        HttpError::from(error).into()
    }
}

impl Refusal {
    /// Returns the error: after [`WRONG_SECRET_DELAY`] if the token is wrong. The request must have
    /// been dropped, so that it holds no more than its connection during that time.
    pub(in crate::http) async fn into_error(self) -> HttpError {
        if self.is_wrong_token {
            sleep(WRONG_SECRET_DELAY).await;
        }
        self.error
    }
}

/// Judge of a request whose token may be in a field, for the handler that reads the fields.
#[derive(Clone)]
pub(in crate::http) struct TagJudge {
    judge: Arc<RequestJudge>,
    peer: ConnectionPeer,
}

impl TagJudge {
    /// Returns who sends a request with these fields: those of its query, and of its form.
    ///
    /// # Errors
    /// It shows nothing that names a caller, or several tokens.
    pub(in crate::http) fn judge(
        &self,
        headers: &mut HeaderMap,
        fields: [&str; 2],
    ) -> Result<Caller, Refusal> {
        self.judge.judge(headers, fields, &self.peer)
    }
}

impl RequestJudge {
    /// Creates the judge of a server. Must be used inside a tokio runtime.
    pub(in crate::http) fn new(access: Access) -> RequestJudge {
        RequestJudge {
            access,
            wrong_tokens: WrongSecretLog::new("HTTP token"),
        }
    }

    /// Returns who sends a request; None: its path needs no caller, or its handler judges by the
    /// [`TagJudge`] that it has now.
    ///
    /// # Errors
    /// The path has no row; the request shows a wrong token; it shows nothing that names a caller;
    /// or the caller has not the right.
    pub(in crate::http) fn admit<B>(
        self: &Arc<Self>,
        request: &mut Request<B>,
        peer: &ConnectionPeer,
    ) -> Result<Option<Caller>, Refusal> {
        let path = request.uri().path();
        let Some(right) = right_for(path) else {
            return Err(HttpError::unknown_path(path).into());
        };
        if right == RouteRight::Tag {
            let (judge, peer) = (self.clone(), peer.clone());
            request.extensions_mut().insert(TagJudge { judge, peer });
            return Ok(None);
        }
        let needs_caller = !matches!(right, RouteRight::Free | RouteRight::Probe);
        let caller = match self.judge(request.headers_mut(), [""; 2], peer) {
            Ok(caller) => caller,
            Err(refusal) if needs_caller || refusal.is_wrong_token => return Err(refusal),
            Err(_) => return Ok(None),
        };
        if let RouteRight::Cluster(right) = right {
            caller.check_right(right)?;
        }
        Ok(Some(caller))
    }

    fn judge(
        &self,
        headers: &mut HeaderMap,
        fields: [&str; 2],
        peer: &ConnectionPeer,
    ) -> Result<Caller, Refusal> {
        let token = match self.access.has_principals() {
            true => take_token(headers, fields),
            false => Ok(None),
        };
        let shows_token = !matches!(token, Ok(None));
        let judged = token.and_then(|token| {
            let judged = judge_caller(&self.access, token.as_ref(), Some(peer));
            judged.map_err(|why| match shows_token {
                true => why,
                false => self.without_identity(peer, why),
            })
        });
        judged.map_err(|why| {
            if shows_token {
                self.wrong_tokens.note(Some(peer.remote()));
            }
            Refusal {
                error: why.into(),
                is_wrong_token: shows_token,
            }
        })
    }

    /// Returns the error of a request without a token whose connection names no caller.
    fn without_identity(&self, peer: &ConnectionPeer, why: RpcError) -> RpcError {
        match peer.caller() {
            ConnectionCaller::Nameless(reason) if self.access.has_principals() => RpcError::new(
                Reason::Unauthenticated,
                format!(
                    "the request has no token, and its connection names no caller: {reason}; send a header Authorization: Bearer with a token, or use a certificate"
                ),
            ),
            _ => why,
        }
    }
}

/// Takes the token off a request; None: it has none.
///
/// # Errors
/// It has several values, or one that is no token.
fn take_token(headers: &mut HeaderMap, fields: [&str; 2]) -> Result<Option<Secret>, RpcError> {
    let token = take_bearer_token(headers).map_err(|status| RpcError::from_status(&status))?;
    let values = fields.iter();
    let mut values = values.flat_map(|fields| query::find_values(fields, TOKEN_FIELD));
    let unauthenticated = |text: String| RpcError::new(Reason::Unauthenticated, text);
    match (token, values.next(), values.next()) {
        (token, None, _) => Ok(token),
        (None, Some(value), None) => match Secret::parse(&value) {
            Ok(token) => Ok(Some(token)),
            Err(why) => Err(unauthenticated(format!("the field {TOKEN_FIELD}: {why}"))),
        },
        _ => Err(unauthenticated(format!(
            "the request has several tokens; send one, in a header Authorization or in the field {TOKEN_FIELD}"
        ))),
    }
}
