//! Namespaces, families and requests of tests, and the reason of a rejection.

use std::fmt::Debug;

use seqsvr_alloc::AllocServer;
use seqsvr_client::Admin;
use seqsvr_core::family::{Family, FamilyLimits, FamilySpec};
use seqsvr_core::geometry::Geometry;
use seqsvr_core::namespace::{NamespaceLimits, NamespaceSpec};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::next_request::KeyKind;
use seqsvr_proto::v1::{NextRequest, Reason};
use tonic::{Code, Response, Status};

use super::alloc_servers::new_client;
use crate::wait::{TEST_TIMEOUT, wait_until};

/// Returns a dense namespace whose step is fixed.
pub fn dense_namespace(name: &str, section_size: u32, max_uid: u64, step: u32) -> NamespaceSpec {
    NamespaceSpec {
        step,
        limits: NamespaceLimits {
            step_max: step,
            ..NamespaceLimits::DEFAULT
        },
        ..NamespaceSpec::new(
            name,
            Geometry::Dense {
                section_size,
                max_uid,
            },
        )
    }
}

/// Creates a namespace through these AllocSvrs.
pub async fn create_namespace(allocs: &[AllocServer], spec: &NamespaceSpec) {
    let admin = new_client(allocs).admin();
    admin.create_namespace(spec).await.unwrap();
}

/// Creates a family with the default limits, once the stores have raised the format level: they
/// wait until all of them support it.
pub async fn create_family(admin: &Admin, spec: &FamilySpec) -> Family {
    wait_until("the level of families", TEST_TIMEOUT, async || {
        let created = admin.create_family(spec, FamilyLimits::DEFAULT).await;
        if let Err(error) = &created {
            assert_eq!(error.reason(), Reason::LevelTooLow, "{error}");
        }
        created.ok()
    })
    .await
}

/// Returns a request for one number.
pub fn next_request(namespace: &str, uid: u64) -> NextRequest {
    NextRequest {
        namespace: namespace.into(),
        key_kind: Some(KeyKind::Uid(uid)),
        ..NextRequest::default()
    }
}

/// Marks a request as forwarded by an AllocSvr: it is answered at once or rejected.
pub fn mark_forwarded(request: NextRequest) -> NextRequest {
    NextRequest {
        forwarded: true,
        ..request
    }
}

/// Returns code, reason and text of a rejected call. Panics if the call was answered.
pub fn expect_rejection<T: Debug>(answer: Result<Response<T>, Status>) -> (Code, Reason, String) {
    let fault = RpcError::from_status(&answer.expect_err("should be rejected"));
    (fault.code, fault.reason(), fault.message)
}
