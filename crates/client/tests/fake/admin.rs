//! The operator's side of the scripted AllocSvr: namespaces, and nothing else.

use std::sync::atomic::Ordering;

use seqsvr_proto::v1;
use seqsvr_proto::v1::admin_server::Admin;
use tonic::{Request, Response, Status};

use super::*;

#[tonic::async_trait]
impl Admin for FakeAlloc {
    /// Shows the namespace in the routing table only a moment later, as with a forwarded creation.
    async fn create_namespace(
        &self,
        request: Request<v1::CreateNamespaceRequest>,
    ) -> Result<Response<v1::Namespace>, Status> {
        let name = request.into_inner().namespace.unwrap().name;
        let mut ahead = self.table.lock().clone();
        let added = add_namespace(&mut ahead, &name);
        let table = self.table.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            *table.lock() = ahead;
        });
        Ok(Response::new(v1::Namespace::from(&added)))
    }

    async fn alter_namespace(
        &self,
        _: Request<v1::AlterNamespaceRequest>,
    ) -> Result<Response<v1::Namespace>, Status> {
        Err(RpcError::new(
            Reason::NamespaceNotFound,
            "no such namespace; create it first",
        )
        .into())
    }

    async fn list_namespaces(
        &self,
        request: Request<v1::ListNamespacesRequest>,
    ) -> Result<Response<v1::ListNamespacesResponse>, Status> {
        let named = ClusterTag::from_metadata(request.metadata()).unwrap();
        self.admin_clusters.lock().push(named);
        let namespaces = self
            .table
            .lock()
            .namespaces()
            .iter()
            .map(v1::Namespace::from)
            .collect();
        Ok(Response::new(v1::ListNamespacesResponse { namespaces }))
    }

    async fn cluster_status(
        &self,
        _: Request<v1::ClusterStatusRequest>,
    ) -> Result<Response<v1::ClusterStatusResponse>, Status> {
        self.status_requests.fetch_add(1, Ordering::SeqCst);
        if let Some(fault) = self.script.lock().status_error.clone() {
            return Err(fault.into());
        }
        Ok(Response::new(v1::ClusterStatusResponse {
            lease_ms: 3000,
            ..Default::default()
        }))
    }

    async fn node_status(
        &self,
        _: Request<v1::NodeStatusRequest>,
    ) -> Result<Response<v1::NodeStatusResponse>, Status> {
        Ok(Response::new(v1::NodeStatusResponse {
            address: self.address.clone(),
            counters: (0..60_000).map(|n| (format!("counter_{n}"), n)).collect(),
            ..Default::default()
        }))
    }

    async fn move_slot(
        &self,
        _: Request<v1::AdminMoveSlotRequest>,
    ) -> Result<Response<v1::AdminMoveSlotResponse>, Status> {
        Err(unimplemented())
    }

    async fn drain(
        &self,
        _: Request<v1::DrainRequest>,
    ) -> Result<Response<v1::DrainResponse>, Status> {
        Err(unimplemented())
    }

    async fn add_member(
        &self,
        _: Request<v1::AddMemberRequest>,
    ) -> Result<Response<v1::MembersResponse>, Status> {
        Err(unimplemented())
    }

    async fn remove_member(
        &self,
        _: Request<v1::RemoveMemberRequest>,
    ) -> Result<Response<v1::MembersResponse>, Status> {
        Err(unimplemented())
    }

    async fn transfer_leader(
        &self,
        _: Request<v1::TransferLeaderRequest>,
    ) -> Result<Response<v1::MembersResponse>, Status> {
        Err(unimplemented())
    }

    async fn change_ids(
        &self,
        _: Request<v1::ChangeIdsRequest>,
    ) -> Result<Response<v1::IdsStatus>, Status> {
        Err(unimplemented())
    }

    async fn list_ids(
        &self,
        _: Request<v1::ListIdsRequest>,
    ) -> Result<Response<v1::IdsStatus>, Status> {
        Err(unimplemented())
    }

    type BackupStream = tonic::codegen::BoxStream<v1::BackupChunk>;

    async fn backup(
        &self,
        _: Request<v1::BackupRequest>,
    ) -> Result<Response<Self::BackupStream>, Status> {
        Err(unimplemented())
    }
}

/// Rejects the calls that the client's tests do not use.
fn unimplemented() -> Status {
    Status::unimplemented("the fake has no cluster behind it")
}
