//! An owner that answers with a table of its own making, and one that does not answer.

use seqsvr_core::ids::{ClusterId, SessionId, Slot};
use seqsvr_core::routing_table::{Route, RoutingDelta, SlotOwner};
use seqsvr_proto::v1::sequence_server::{Sequence, SequenceServer};
use seqsvr_proto::v1::{self, NextManyResponse};
use tonic::transport::server::{Server, TcpIncoming};
use tonic::{Response, Streaming};

use super::*;
use crate::batch::request::BatchRequest;
use crate::batch::request_context::local_operator;
use crate::fast_path::tests::FastPathFixture;

/// An owner that attaches this table to each answer, and rejects every second call.
struct FalseOwner {
    attached: v1::RoutingTable,
    calls: std::sync::atomic::AtomicU64,
}

type Answer<T> = Result<Response<T>, Status>;

fn not_called<T>() -> Answer<T> {
    Err(Status::unimplemented("the test does not call this"))
}

#[tonic::async_trait]
impl Sequence for FalseOwner {
    async fn next_many(&self, request: Request<NextManyRequest>) -> Answer<NextManyResponse> {
        let uids = request.into_inner().uids;
        let routes = Some(self.attached.clone());
        let calls = self
            .calls
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if calls.is_multiple_of(2) {
            let mut fault = RpcError::new(Reason::NotOwner, "another one is the owner");
            fault.detail.routes = routes;
            return Err(fault.into());
        }
        Ok(Response::new(NextManyResponse {
            firsts: vec![1; uids.len()],
            lasts: vec![1; uids.len()],
            epochs: vec![2; uids.len()],
            routes,
            ..NextManyResponse::default()
        }))
    }

    async fn next(&self, _: Request<v1::NextRequest>) -> Answer<v1::NextResponse> {
        not_called()
    }

    async fn current(&self, _: Request<v1::CurrentRequest>) -> Answer<v1::CurrentResponse> {
        not_called()
    }

    async fn current_many(
        &self,
        _: Request<CurrentManyRequest>,
    ) -> Answer<v1::CurrentManyResponse> {
        not_called()
    }

    async fn raise_to(&self, _: Request<RaiseToRequest>) -> Answer<v1::RaiseToResponse> {
        not_called()
    }

    async fn routes(&self, _: Request<v1::RoutesRequest>) -> Answer<RoutingTable> {
        not_called()
    }

    type PipeStream = futures::stream::Pending<Result<v1::PipeResponse, Status>>;

    async fn pipe(&self, _: Request<Streaming<v1::PipeRequest>>) -> Answer<Self::PipeStream> {
        not_called()
    }
}

/// Returns a delta that gives slots to the process at an address.
fn owned_by(address: &str, base: u64, version: u64, slots: std::ops::Range<u16>) -> RoutingDelta {
    let owner = SlotOwner {
        session: SessionId(2),
        name: "a2".into(),
        address: address.to_owned(),
    };
    let route = Route {
        epoch: Epoch(version),
        owner: Some(owner),
        version,
    };
    RoutingDelta {
        cluster: ClusterId(1),
        base,
        version,
        slot_count: 8,
        namespaces: Vec::new(),
        families: Vec::new(),
        routes: slots.map(|slot| (Slot(slot), route.clone())).collect(),
    }
}

/// Returns a uid whose section is in a slot.
fn uid_of_slot(table: &seqsvr_core::routing_table::RoutingTable, slot: Slot) -> u64 {
    let mut uids = (0u64..64).map(|section| section * 100_000 + 7);
    let found = uids.find(|uid| {
        let key = seqsvr_core::key::KeyRef::Uid(*uid);
        table.locate(&table.namespaces()[0], key).unwrap().1 == slot
    });
    found.unwrap()
}

/// Schedule: a process at the address of an owner answers forwarded calls, once with an error and
/// once with numbers. Both name it as the owner of every slot, in a version far above.
#[tokio::test]
async fn table_of_another_alloc_is_not_applied() {
    let fixture = FastPathFixture::new().await;
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = incoming.local_addr().unwrap().to_string();
    let false_table = owned_by(&address, 0, 1 << 62, 0..8);
    let owner = FalseOwner {
        attached: v1::RoutingTable::from(&false_table),
        calls: Default::default(),
    };
    tokio::spawn(
        Server::builder()
            .add_service(SequenceServer::new(owner))
            .serve_with_incoming(incoming),
    );
    let table = fixture.table.clone();
    // The store gave one slot to it.
    table.apply(owned_by(&address, 1, 2, 3..4)).unwrap();
    let batch = BatchRequest::from(NextManyRequest {
        uids: vec![uid_of_slot(&table.load().unwrap(), Slot(3))],
        ..NextManyRequest::default()
    });
    let call = batch.to_context(
        &local_operator(),
        Instant::now() + Duration::from_secs(20),
        None,
        None,
    );
    let answer = fixture.slow_path.serve_batch_slow(&call, &batch).await;
    assert_eq!(answer.values, [1], "the numbers are the owner's");
    assert_eq!(table.version(), 2, "its table is not taken");
    let store_table = owned_by("127.0.0.1:9", 2, 3, 3..4);
    assert!(table.apply(store_table).unwrap(), "that of a store is");
}

/// Schedule: an owner is stopped (SIGSTOP) with a forwarded call in its socket, its session
/// expires, and another AllocSvr gets its slots. That one answers the call at once; the call does
/// not wait for the time-out of the attempt.
#[tokio::test]
async fn attempt_at_a_replaced_owner_ends_at_once() {
    let fixture = FastPathFixture::new().await;
    let table = fixture.table.clone();
    let stopped = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stopped_address = stopped.local_addr().unwrap().to_string();
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let new_address = incoming.local_addr().unwrap().to_string();
    let owner = FalseOwner {
        attached: v1::RoutingTable::default(),
        calls: 1.into(),
    };
    let serving = Server::builder()
        .add_service(SequenceServer::new(owner))
        .serve_with_incoming(incoming);
    tokio::spawn(serving);
    // The machine may stop this process for a while as well, so one quick answer of some is enough.
    let mut version = 1;
    for _ in 0..10 {
        table
            .apply(owned_by(&stopped_address, version, version + 1, 3..4))
            .unwrap();
        let batch = BatchRequest::from(NextManyRequest {
            uids: vec![uid_of_slot(&table.load().unwrap(), Slot(3))],
            ..NextManyRequest::default()
        });
        let call = batch.to_context(
            &local_operator(),
            Instant::now() + Duration::from_secs(20),
            None,
            None,
        );
        let began = Instant::now();
        let replacing = async {
            let _connection = stopped.accept().await.unwrap();
            table
                .apply(owned_by(&new_address, version + 1, version + 2, 3..4))
                .unwrap();
            std::future::pending::<()>().await;
        };
        let answer = tokio::select! {
            answer = fixture.slow_path.serve_batch_slow(&call, &batch) => answer,
            () = replacing => unreachable!("it is pending"),
        };
        assert_eq!(answer.values, [1], "the numbers are the new owner's");
        if began.elapsed() < FORWARD_ATTEMPT_TIMEOUT / 2 {
            return;
        }
        version += 2;
    }
    panic!("each attempt lasted until its time-out");
}
