//! One store under TLS, and AllocSvrs that send what only another one may send.
//!
//! Fault: an AllocSvr with a good certificate lies about its name, its address, its session and its
//! slots. The rules, with their schedules, are in `service/sender.rs`.

use std::time::Duration;

use seqsvr_core::geometry::slot_of;
use seqsvr_core::ids::{NamespaceId, SectionId, SectionKey};
use seqsvr_proto::convert::u128_to_bytes;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::admin_client::AdminClient;
use seqsvr_proto::v1::rejected::Kind;
use seqsvr_proto::v1::section_reply::Reply;
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_proto::v1::{self, Reason};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tonic::Status;
use tonic::transport::Channel;

use crate::fake_alloc::{close_command, open_command, raise_command};
use crate::secured_stores::{SLOTS, SecuredStores};

const HOST: &str = "127.0.0.1";

/// Id of no session.
const NO_SESSION: u64 = 4_711;

fn fault<T: std::fmt::Debug>(answer: Result<T, Status>) -> RpcError {
    RpcError::from_status(&answer.unwrap_err())
}

fn registration(name: &str, address: &str) -> v1::OpenSessionRequest {
    v1::OpenSessionRequest {
        name: name.to_owned(),
        address: address.to_owned(),
        incarnation: 1,
        nonce: u128_to_bytes(rand::random()),
        ..Default::default()
    }
}

/// Opens a session and renews it once, so that it may get slots.
async fn register(store: &mut StoreClient<Channel>, name: &str, port: u16) -> u64 {
    let request = registration(name, &format!("{HOST}:{port}"));
    let opened = store.open_session(request).await.unwrap().into_inner();
    keep_alive(store, opened.session).await.unwrap();
    opened.session
}

async fn keep_alive(store: &mut StoreClient<Channel>, session: u64) -> Result<(), Status> {
    let request = v1::KeepAliveRequest {
        session,
        ..Default::default()
    };
    store.keep_alive(request).await.map(drop)
}

async fn close_session(
    store: &mut StoreClient<Channel>,
    session: u64,
    high_water_marks: Vec<v1::SectionHighWaterMark>,
    last: bool,
) -> Result<(), Status> {
    let request = v1::CloseSessionRequest {
        session,
        high_water_marks,
        last,
        cluster_tag: 0,
    };
    store.close_session(request).await.map(drop)
}

async fn move_slot(
    store: &mut StoreClient<Channel>,
    session: u64,
    (slot, epoch): (u32, u64),
    target_session: u64,
) -> Result<u64, Status> {
    let request = v1::MoveSlotRequest {
        session,
        slot,
        epoch,
        target_session,
        ..Default::default()
    };
    let moved = store.move_slot(request).await?;
    Ok(moved.into_inner().epoch)
}

async fn submit(store: &mut StoreClient<Channel>, commands: Vec<v1::SectionCommand>) -> Vec<Reply> {
    let request = v1::SubmitRequest {
        commands,
        cluster_tag: 0,
    };
    let replies = store.submit(request).await.unwrap().into_inner().replies;
    replies.into_iter().map(|r| r.reply.unwrap()).collect()
}

fn is_not_owner(reply: &Reply) -> bool {
    matches!(reply, Reply::Rejected(r) if r.kind() == Kind::NotOwner)
}

/// Returns the fence of the first section of `default` in a slot.
fn fence(slot: u32, epoch: u64) -> v1::Fence {
    let key = |section| SectionKey {
        namespace: NamespaceId(1),
        section: SectionId(section),
    };
    let section = (0..1_000).find(|section| u32::from(slot_of(key(*section), SLOTS).0) == slot);
    v1::Fence {
        slot,
        epoch,
        namespace: 1,
        section: section.unwrap(),
    }
}

/// Returns max_seq and generation of a section, and epoch and owner of its slot.
async fn read(store: &mut StoreClient<Channel>, fence: v1::Fence) -> (u64, u64, u64, u64) {
    let request = v1::ReadRequest {
        sections: vec![v1::SectionRef {
            namespace: fence.namespace,
            section: fence.section,
        }],
        slots: vec![fence.slot],
        ..Default::default()
    };
    let read = store.read(request).await.unwrap().into_inner();
    let row = read.sections[0];
    (row.max_seq, row.generation, read.epochs[0], read.owners[0])
}

#[tokio::test]
async fn alloc_server_speaks_for_its_own_name_session_and_slots_only() {
    let store = SecuredStores::start(1).await;
    let (mut a1, mut a2) = (store.alloc("a1"), store.alloc("a2"));

    // 1. Names and addresses.
    let own = register(&mut a1, "a1", 7701).await;
    let mut stolen = registration("a1", "127.0.0.1:7702");
    stolen.proof_session = Some(own);
    stolen.proof_nonce = u128_to_bytes(1);
    for (request, texts) in [
        (stolen, ["is for seqsvr://test/alloc/a2", "\"a1\""]),
        (
            registration("a3", "127.0.0.1:7702"),
            ["is for seqsvr://test/alloc/a2", "\"a3\""],
        ),
        (
            registration("a2", "127.0.0.2:7702"),
            ["is for 127.0.0.1", "not for 127.0.0.2"],
        ),
        (
            registration("a2", "169.254.169.254:80"),
            ["is for 127.0.0.1", "not for 169.254.169.254"],
        ),
        (
            registration("a2", "localhost:7702"),
            ["is for 127.0.0.1", "not for localhost"],
        ),
    ] {
        let denied = fault(a2.open_session(request).await);
        assert_eq!(denied.reason(), Reason::PermissionDenied, "{denied}");
        for text in texts {
            assert!(denied.message.contains(text), "{text}: {denied}");
        }
    }
    let all = wait_until("slots of a1", TEST_TIMEOUT, async || {
        let (.., epoch, owner) = read(&mut a1.clone(), fence(0, 0)).await;
        let (.., other) = read(&mut a1.clone(), fence(1, 0)).await;
        (owner == own && other == own).then_some(epoch)
    });
    let epoch = all.await;
    let other = register(&mut a2, "a2", 7702).await;

    // 2. Sessions: the answer for another one's is that for none.
    let first = fence(0, epoch);
    let opened = submit(
        &mut a1,
        vec![open_command(first), raise_command(first, 1, 500)],
    )
    .await;
    assert!(matches!(opened[0], Reply::Opened(_)), "{opened:?}");
    let raised = submit(&mut a1, vec![raise_command(first, 1, 500)]).await;
    assert!(matches!(raised[0], Reply::Raised(_)), "{raised:?}");
    let before = read(&mut a1, first).await;
    assert_eq!(before, (500, 1, epoch, own));
    let forged = v1::SectionHighWaterMark {
        fence: Some(first),
        generation: 1,
        value: 0,
    };
    let mut texts = Vec::new();
    for session in [own, NO_SESSION] {
        let draining = v1::KeepAliveRequest {
            session,
            draining: true,
            ..Default::default()
        };
        for denied in [
            fault(keep_alive(&mut a2, session).await),
            fault(a2.keep_alive(draining).await),
            fault(close_session(&mut a2, session, vec![forged], false).await),
            fault(close_session(&mut a2, session, Vec::new(), true).await),
            fault(move_slot(&mut a2, session, (0, epoch), other).await),
        ] {
            assert_eq!(denied.reason(), Reason::SessionNotFound, "{denied}");
            texts.push(denied.message.replace(&session.to_string(), "N"));
        }
    }
    texts.dedup();
    assert_eq!(texts.len(), 1, "{texts:?}");

    // 3. Slots: also through the session of the sender itself.
    let denied = fault(move_slot(&mut a2, other, (0, epoch), other).await);
    assert_eq!(denied.reason(), Reason::Rejected, "{denied}");
    close_session(&mut a2, other, vec![forged], false)
        .await
        .unwrap();
    let moved = move_slot(&mut a1, own, (1, epoch), other).await.unwrap();
    let second = fence(1, moved);
    let replies = submit(
        &mut a2,
        vec![
            open_command(first),
            open_command(second),
            raise_command(first, 1, 1_000),
            close_command(first, 1, 0),
        ],
    )
    .await;
    assert!(matches!(replies[1], Reply::Opened(_)), "{replies:?}");
    for foreign in [0, 2, 3] {
        assert!(is_not_owner(&replies[foreign]), "{foreign}: {replies:?}");
    }
    assert_eq!(read(&mut a1, first).await, before);
    keep_alive(&mut a1, own).await.unwrap();

    // 4. A close whose answer was lost is repeated.
    for _ in 0..2 {
        close_session(&mut a1, own, Vec::new(), true).await.unwrap();
    }
    let ended = fault(keep_alive(&mut a1, own).await);
    assert_eq!(ended.reason(), Reason::SessionNotFound, "{ended}");
    store.shutdown().await;
}

/// Schedule: see `service/sender.rs`. The command for the epoch to come arrives before the move
/// that begins this epoch.
#[tokio::test]
async fn command_for_an_epoch_to_come_waits_and_is_judged_by_its_owner() {
    let store = SecuredStores::start(1).await;
    let (mut a1, mut a2) = (store.alloc("a1"), store.alloc("a2"));
    let own = register(&mut a1, "a1", 7701).await;
    let mut epoch = wait_until("a slot of a1", TEST_TIMEOUT, async || {
        let (.., epoch, owner) = read(&mut a1.clone(), fence(0, 0)).await;
        (owner == own).then_some(epoch)
    })
    .await;
    let other = register(&mut a2, "a2", 7702).await;

    // 1. It does not come: rejected, and not proposed later.
    let replies = submit(&mut a2, vec![open_command(fence(0, epoch + 1))]).await;
    assert!(is_not_owner(&replies[0]), "{replies:?}");
    let denied = fault(move_slot(&mut a2, other, (0, epoch + 1), other).await);
    assert_eq!(denied.reason(), Reason::Rejected, "{denied}");

    // 2. It comes, and is the sender's: as if the leader had been a little late.
    let next = fence(0, epoch + 1);
    let (mut early, command) = (a2.clone(), vec![open_command(next)]);
    let waiting = tokio::spawn(async move { submit(&mut early, command).await });
    sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished(), "it did not wait");
    epoch = move_slot(&mut a1, own, (0, epoch), other).await.unwrap();
    let replies = waiting.await.unwrap();
    assert!(matches!(replies[0], Reply::Opened(_)), "{replies:?}");

    // 3. It comes, and is another one's.
    let (max_seq, generation, ..) = read(&mut a1, next).await;
    let forged = vec![close_command(fence(0, epoch + 1), generation, 0)];
    let mut early = a2.clone();
    let waiting = tokio::spawn(async move { submit(&mut early, forged).await });
    sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished(), "it did not wait");
    let moved = move_slot(&mut a2, other, (0, epoch), own).await.unwrap();
    let replies = waiting.await.unwrap();
    assert!(is_not_owner(&replies[0]), "{replies:?}");
    assert_eq!(read(&mut a1, next).await, (max_seq, generation, moved, own));
    store.shutdown().await;
}

/// Schedule: an operator names an address of a server that is no store, as of a service inside a
/// private network. That server receives the begin of a handshake, and no byte of a call.
#[tokio::test]
async fn server_that_is_no_store_receives_a_handshake_at_most() {
    let stores = SecuredStores::start(1).await;
    let operator = stores.caller("admin", "alice");
    let mut admin = AdminClient::new(stores.connect(0, &operator));
    let listener = TcpListener::bind((HOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, mut received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut first = vec![0; 4_096];
            let length = stream.read(&mut first).await.unwrap_or(0);
            first.truncate(length);
            sender.send(first).unwrap();
        }
    });
    let request = v1::AddMemberRequest {
        id: 2,
        address: address.clone(),
    };
    let denied = fault(admin.add_member(request).await);
    assert!(denied.message.contains(&address), "{denied}");
    let first = received.recv().await.unwrap();
    // A record of a handshake (22) that is a ClientHello (1), RFC 8446, sections 5.1 and 4.
    assert_eq!((first[0], first[5]), (22, 1), "{first:?}");
    let status = admin.cluster_status(v1::ClusterStatusRequest {}).await;
    assert_eq!(status.unwrap().into_inner().stores.len(), 1);
    stores.shutdown().await;
}
