//! `Admin` calls that this process relays, and those that it serves. Both name its cluster.
//!
//! Invariant: an operator's call to a process of one cluster acts on no store and no AllocSvr of
//! another.
//!
//! Schedule that breaks it: the stores are wiped and initialized again. Before this process ends,
//! an operator requests it to remove a member or to drain an AllocSvr. It relays the call to the
//! leader at the old address, which now belongs to another cluster.

use std::sync::Arc;

use seqsvr_proto::cluster_tag::ClusterTag;
use seqsvr_proto::v1::admin_client::AdminClient;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::own_cluster::OwnCluster;

/// Client of the `Admin` service that names the cluster of this process.
pub(crate) type RelayClient = AdminClient<InterceptedService<Channel, ClusterTagWriter>>;

/// Writes the cluster of this process into the metadata of each call.
#[derive(Clone)]
pub(crate) struct ClusterTagWriter(Arc<OwnCluster>);

impl Interceptor for ClusterTagWriter {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        self.0.tag().write_metadata(request.metadata_mut());
        Ok(request)
    }
}

/// Rejects calls whose metadata names another cluster. A caller that names none is served.
#[derive(Clone)]
pub(crate) struct ClusterTagCheck(pub(crate) Arc<OwnCluster>);

impl Interceptor for ClusterTagCheck {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let caller = ClusterTag::from_metadata(request.metadata())?;
        self.0.check_relayed(caller)?;
        Ok(request)
    }
}

/// Creates a client over a channel.
pub(crate) fn relay_client(cluster: &Arc<OwnCluster>, channel: Channel) -> RelayClient {
    AdminClient::with_interceptor(channel, ClusterTagWriter(cluster.clone()))
}

#[cfg(test)]
mod tests {
    use seqsvr_core::ids::ClusterId;

    use super::*;

    #[test]
    fn relayed_call_to_another_cluster_is_rejected() {
        let [one, two] = [ClusterId(1), ClusterId(2)].map(|cluster| {
            let own = Arc::new(OwnCluster::default());
            own.decide(cluster);
            own
        });
        let call = |cluster: &Arc<OwnCluster>| {
            let named = ClusterTagWriter(cluster.clone()).call(Request::new(()));
            ClusterTagCheck(one.clone()).call(named.unwrap())
        };
        assert!(call(&one).is_ok());
        assert!(call(&two).is_err());
        assert!(call(&Arc::default()).is_ok(), "it names no cluster");
    }

    /// Schedule: a process of cluster 2 is started at an address of cluster 1, and a holder there
    /// acquires a worker before the stores of cluster 2 answer.
    #[test]
    fn call_that_names_a_cluster_waits_for_the_decision() {
        let own = Arc::new(OwnCluster::default());
        let holder = Arc::new(OwnCluster::default());
        holder.decide(ClusterId(1));
        let named = |cluster: &Arc<OwnCluster>| {
            let request = ClusterTagWriter(cluster.clone()).call(Request::new(()));
            ClusterTagCheck(own.clone()).call(request.unwrap())
        };
        let early = named(&holder).unwrap_err();
        assert_eq!(early.code(), tonic::Code::Unavailable);
        assert!(named(&Arc::default()).is_ok(), "it names no cluster");
        own.decide(ClusterId(2));
        assert_eq!(
            named(&holder).unwrap_err().code(),
            tonic::Code::FailedPrecondition
        );
    }
}
