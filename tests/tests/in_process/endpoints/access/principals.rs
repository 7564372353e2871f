//! Every method of an AllocSvr with a file of principals, called with each right alone.

use std::fmt::Debug;

use seqsvr_access::Secret;
use seqsvr_proto::v1::{CurrentKind, raise_to_request};

use super::grpc_caller::{Shown, begin};
use super::principal_cluster::{
    ADMIN, CURRENT, IDS, NEXT, PrincipalCluster, RAISE, RAISED, RIGHTS, STATUS, TAKEN,
};
use super::*;

/// Returns what a method needs of a principal; None: it is open to each.
fn right_for(path: &str) -> Option<&'static str> {
    Some(match path {
        "/seqsvr.v1.Sequence/Next" | "/seqsvr.v1.Sequence/NextMany" => NEXT,
        "/seqsvr.v1.Sequence/Current" | "/seqsvr.v1.Sequence/CurrentMany" => CURRENT,
        "/seqsvr.v1.Sequence/RaiseTo" => RAISE,
        "/seqsvr.v1.Ids/NextIds"
        | "/seqsvr.v1.Ids/AcquireWorker"
        | "/seqsvr.v1.Ids/RenewWorkers"
        | "/seqsvr.v1.Ids/ReleaseWorker" => IDS,
        "/seqsvr.v1.Admin/ListNamespaces"
        | "/seqsvr.v1.Admin/ListIds"
        | "/seqsvr.v1.Admin/ClusterStatus"
        | "/seqsvr.v1.Admin/NodeStatus" => STATUS,
        "/seqsvr.v1.Admin/MoveSlot" | "/seqsvr.v1.Admin/Drain" => ADMIN,
        "/seqsvr.v1.Sequence/Routes" | "/seqsvr.v1.Sequence/Pipe" => return None,
        _ if path.starts_with("/grpc.") => return None,
        _ => "closed to all principals",
    })
}

fn assert_same<T: Debug>(one: (&RpcError, T), two: (&RpcError, T)) {
    assert_eq!(one.0.code, two.0.code, "{one:?} {two:?}");
    assert_eq!(one.0.message, two.0.message);
    assert_eq!(one.0.detail, two.0.detail);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_method_is_open_to_its_right_only() {
    let cluster = PrincipalCluster::start().await;
    let (mut taken, mut methods) = (0, 0);
    for path in all_paths() {
        if alloc_roles(&path).is_empty() || path == "/seqsvr.v1.Sequence/Pipe" {
            continue;
        }
        methods += 1;
        for (right, shown) in cluster.principals() {
            let needed = right_for(&path);
            let who = format!("{right:?} calls {path}");
            // Watches have no end: only their beginning is looked at.
            let status = match path.starts_with("/grpc.") {
                true => match begin(&shown, &path).await {
                    Some(status) => status,
                    None => continue,
                },
                false => shown.call_for(&path, "orders").await,
            };
            let is_denied = status.code() == Code::PermissionDenied;
            let may = needed.is_none_or(|needed| needed == right);
            assert_eq!(is_denied, !may, "{who}: {status}");
            assert_ne!(status.code(), Code::Unauthenticated, "{who}: {status}");
            if may && path.starts_with("/seqsvr.v1.Sequence/") {
                assert_eq!(status.code(), Code::Ok, "{who}: {status}");
            }
            taken += u64::from(may && needed == Some(NEXT));
            let is_named = matches!(needed, Some(NEXT | CURRENT | RAISE | IDS));
            if !is_named {
                continue;
            }
            // One that is not granted and one that does not exist are denied alike.
            let [other, missing] = [
                shown.call_for(&path, "other").await,
                shown.call_for(&path, "missing").await,
            ]
            .map(|status| RpcError::from_status(&status));
            assert_eq!(other.reason(), Reason::PermissionDenied, "{who}: {other}");
            assert_same((&other, &who), (&missing, &who));
        }
    }
    assert!(methods > 20, "{methods} methods");
    let (last, _) = cluster.last_number("orders").await;
    assert_eq!(last, taken, "denied calls take nothing");
    assert_eq!(cluster.last_number("other").await.1, CurrentKind::Never);
    cluster.secured.shutdown().await;
}

/// Schedule: a Pipe carries frames of many namespaces. Judged once, by its first frame, it would be
/// open for all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_frame_of_a_pipe_is_judged_and_routes_have_what_is_granted() {
    let cluster = PrincipalCluster::start().await;
    let mut taken = 0;
    for (right, shown) in cluster.principals() {
        let errors = shown.pipe(&["orders", "other", "missing", "orders"]).await;
        let [next, current, ids] = [NEXT, CURRENT, IDS].map(|needed| needed == right);
        for (frame, error) in errors.iter().enumerate() {
            let may = [next, current, ids][frame % 3] && !(3..9).contains(&frame);
            let reason = error.as_ref().map(RpcError::reason);
            let expected = (!may).then_some(Reason::PermissionDenied);
            assert_eq!(reason, expected, "{right} frame {frame}: {error:?}");
        }
        for frame in 3..6 {
            let [other, missing] =
                [&errors[frame], &errors[frame + 3]].map(|e| e.as_ref().unwrap());
            assert_same((other, right), (missing, right));
        }
        taken += 2 * u64::from(next);
        let expected = match right {
            NEXT | CURRENT | RAISE => vec!["orders"],
            IDS => vec!["@ids/orders"],
            _ => Vec::new(),
        };
        assert_eq!(shown.visible_names().await, expected, "{right}");
    }
    assert_eq!(cluster.last_number("orders").await.0, taken);
    assert_eq!(cluster.last_number("other").await.1, CurrentKind::Never);

    // The SDK takes numbers with one right, and sees nothing else.
    let (ca, dir) = (&cluster.secured.ca, cluster.secured.dir.path());
    let transport = write_certificate(ca, dir, "client", "p1");
    let options = ClientOptions::new([cluster.secured.alloc_address(0)]);
    let pool = ChannelPool::with_transport(transport);
    let client = seqsvr_client::Client::over(pool, options).unwrap();
    let table = client.routes().await.unwrap();
    assert_eq!(table.namespaces().len(), 1);
    let numbers = client.namespace("orders").next(TAKEN).await.unwrap();
    assert_eq!(numbers.first, taken + 1);
    cluster.secured.shutdown().await;
}

/// Schedules: a proxy with a certificate passes on a token that was removed; or it has checked one
/// of two values, and the server judges by the other. A stranger has only the certificate of the
/// CA.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caller_without_one_right_identity_is_refused_everywhere() {
    let cluster = PrincipalCluster::start().await;
    let right = cluster.bearer(1);
    let wrong = format!("Bearer {}", Secret::generate().unwrap().expose());
    let mut refused = vec![
        cluster.with_values(&[]),
        cluster.with_values(&[&wrong]),
        cluster.with_values(&[&right, &right]),
    ];
    for (role, name) in [("client", "p1"), ("admin", "alice"), ("alloc", "a9")] {
        for values in [&[&wrong][..], &[&right, &wrong], &[&wrong, &right]] {
            refused.push(Shown {
                authorization: values.iter().map(ToString::to_string).collect(),
                ..cluster.certified(role, name)
            });
        }
    }
    for path in all_paths() {
        if alloc_roles(&path).is_empty() {
            continue;
        }
        for shown in &refused {
            let status = begin(shown, &path).await.expect("a rejection has no body");
            assert_eq!(status.code(), Code::Unauthenticated, "{path}: {status}");
        }
    }
    assert_eq!(cluster.last_number("orders").await.1, CurrentKind::Never);

    // Roles of servers and operators count as without the file.
    let address = cluster.secured.alloc_address(0);
    let peers = [Store, Alloc, Admin].map(|role| {
        let pool = cluster.secured.channels_of(role.name());
        (Some(role), pool.get(&address).unwrap())
    });
    check_methods(&address, &peers, alloc_roles).await;

    // A token acts for its principal alone, also over the connection of a server: it is forwarded
    // for, but forwards and forces nothing.
    let forwarding = Shown {
        authorization: vec![right],
        ..cluster.certified("alloc", "a9")
    };
    let status = forwarding
        .call_for("/seqsvr.v1.Sequence/Next", "other")
        .await;
    assert_eq!(status.code(), Code::PermissionDenied, "{status}");
    let forced = |value| v1::RaiseToRequest {
        namespace: "orders".to_owned(),
        key_kind: Some(raise_to_request::KeyKind::Uid(RAISED)),
        value,
        force: true,
        forwarded: true,
        ..v1::RaiseToRequest::default()
    };
    let path = "/seqsvr.v1.Sequence/RaiseTo";
    for principal in [RAISE, ADMIN] {
        let index = RIGHTS.iter().position(|right| *right == principal).unwrap();
        let shown = Shown {
            authorization: vec![cluster.bearer(index)],
            ..cluster.certified("admin", "alice")
        };
        let request = forced(1 << 40).encode_to_vec();
        let (status, _) = shown.call(path, &[request]).await;
        assert_eq!(
            status.code(),
            Code::PermissionDenied,
            "{principal}: {status}"
        );
    }
    // Schedule: it leaves out the key, and each of its calls is a line in the log of changes.
    let by_raise = Shown {
        authorization: vec![cluster.bearer(RIGHTS.iter().position(|r| *r == RAISE).unwrap())],
        ..cluster.certified("admin", "alice")
    };
    let without_key = v1::RaiseToRequest {
        key_kind: None,
        ..forced(1)
    };
    let (status, _) = by_raise.call(path, &[without_key.encode_to_vec()]).await;
    assert_eq!(status.code(), Code::PermissionDenied, "{status}");
    cluster.secured.shutdown().await;
}
