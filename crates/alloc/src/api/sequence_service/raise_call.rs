//! Raises of a sequence. Forced ones are changes of operators, so each is in the log of changes.

use seqsvr_access::{GrantTarget, NamespaceRight};
use seqsvr_proto::cluster_tag::ClusterTagged;
use seqsvr_proto::convert::{RequestKey, namespace_name};
use seqsvr_proto::v1::{RaiseToRequest, RaiseToResponse};
use tonic::{Code, Request, Response, Status};

use super::{SequenceService, mismatched_answer};
use crate::batch::item::{ItemAnswer, RequestItem};
use crate::batch::validate::{
    check_force, check_right, parse_raise, require_key, validate_namespace_name,
};
use crate::metrics::call_metrics::CallMethod;

/// Method of a forced raise in the log of changes.
const FORCED_RAISE: &str = "/seqsvr.v1.Sequence/RaiseTo with force";

impl SequenceService {
    /// Answers `RaiseTo`.
    pub(super) async fn raise(
        &self,
        request: Request<RaiseToRequest>,
    ) -> Result<Response<RaiseToResponse>, Status> {
        let is_forced = request.get_ref().force;
        let change = is_forced.then(|| self.0.changes.begin(request.extensions(), FORCED_RAISE));
        let raised = self
            .with_metrics(
                CallMethod::RaiseTo,
                request,
                |arrival, request| async move {
                    // First: a caller without the right must not fill the log of changes.
                    check_force(&request, &arrival.caller)?;
                    self.0.shared.own_cluster.check(request.cluster_tag())?;
                    let key = require_key(request.key_ref())?;
                    let target = GrantTarget::Namespace(namespace_name(&request.namespace, key));
                    check_right(&arrival.caller, NamespaceRight::Raise, target)?;
                    validate_namespace_name(&request.namespace)?;
                    let operation = parse_raise(&request)?;
                    let item = RequestItem {
                        key: key.into(),
                        operation,
                        epoch: request.epoch.unwrap_or(0),
                    };
                    let table_version = request.table_version;
                    let (cluster, forwarded) = (request.cluster_tag(), request.forwarded);
                    // The owner takes a forced raise of an operator only, and not from the AllocSvr
                    // that forwards it, so the operator calls it directly.
                    let is_bound = request.force && !arrival.caller.is_local_operator();
                    let caller = arrival.caller.clone();
                    let mut call = arrival.into_context(
                        request.namespace,
                        cluster,
                        table_version,
                        forwarded,
                        false,
                    );
                    call.forwarded |= is_bound;
                    match self.serve_slow(&caller, call, item).await? {
                        ItemAnswer::Raised {
                            value,
                            had_number,
                            epoch,
                        } => Ok(RaiseToResponse {
                            value,
                            had_number,
                            epoch: epoch.0,
                            routes: self.0.shared.table.routes_since(table_version, &caller),
                            cluster_tag: self.0.shared.own_cluster.tag().0,
                        }),
                        _ => Err(mismatched_answer()),
                    }
                },
            )
            .await;
        if let Some(change) = change {
            change.end(raised.as_ref().map_or_else(Status::code, |_| Code::Ok));
        }
        raised
    }
}
