//! Every method of an AllocSvr with a file of principals, called with each right alone.

use std::fmt::Debug;

use http_body_util::BodyExt;
use prost::bytes::{Buf, BufMut, BytesMut};
use seqsvr_access::{AccessFile, Secret};
use seqsvr_client::FamilySpec;
use seqsvr_core::layout::TickScale;
use seqsvr_net::tls::CaTransport;
use seqsvr_proto::v1::pipe_request::Operation;
use seqsvr_proto::v1::pipe_response::Answer;
use seqsvr_proto::v1::worker_result::Result as Outcome;
use seqsvr_proto::v1::{CurrentKind, current_request, next_request, raise_to_request};
use seqsvr_test_support::in_process::create_family;
use tonic::codegen::http::HeaderMap;

use super::*;

/// Each right alone, as a line of the file; and none.
const RIGHTS: [&str; 8] = [
    "",
    "next=['orders']",
    "current=['orders']",
    "raise=['orders']",
    "next=['@ids/orders']",
    "cluster=['status']",
    "cluster=['metrics']",
    "cluster=['admin']",
];
const NEXT: &str = RIGHTS[1];
const CURRENT: &str = RIGHTS[2];
const RAISE: &str = RIGHTS[3];
const IDS: &str = RIGHTS[4];
const STATUS: &str = RIGHTS[5];
const ADMIN: &str = RIGHTS[7];
/// 2026-01-01, the epoch of the families.
const EPOCH_MS: u64 = 1_767_225_600_000;
/// Uid of which numbers are taken, and the one that is raised.
const TAKEN: u64 = 1;
const RAISED: u64 = 2;

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

/// Returns a request of a method for the namespace or family with this name.
fn request_for(path: &str, name: &str) -> Vec<u8> {
    let (namespace, family) = (name.to_owned(), name.to_owned());
    let nonce = bytes::Bytes::from(vec![1; 16]);
    match path {
        "/seqsvr.v1.Sequence/Next" => v1::NextRequest {
            namespace,
            key_kind: Some(next_request::KeyKind::Uid(TAKEN)),
            ..v1::NextRequest::default()
        }
        .encode_to_vec(),
        "/seqsvr.v1.Sequence/NextMany" => next_many(name).encode_to_vec(),
        "/seqsvr.v1.Sequence/Current" => current(name).encode_to_vec(),
        "/seqsvr.v1.Sequence/CurrentMany" => v1::CurrentManyRequest {
            namespace,
            uids: vec![TAKEN],
            ..v1::CurrentManyRequest::default()
        }
        .encode_to_vec(),
        "/seqsvr.v1.Sequence/RaiseTo" => v1::RaiseToRequest {
            namespace,
            key_kind: Some(raise_to_request::KeyKind::Uid(RAISED)),
            value: 1,
            ..v1::RaiseToRequest::default()
        }
        .encode_to_vec(),
        "/seqsvr.v1.Ids/NextIds" => next_ids(name).encode_to_vec(),
        "/seqsvr.v1.Ids/AcquireWorker" => v1::AcquireWorkerRequest {
            family,
            holder: "pod-3".to_owned(),
            nonce,
            ..v1::AcquireWorkerRequest::default()
        }
        .encode_to_vec(),
        "/seqsvr.v1.Ids/RenewWorkers" => v1::RenewWorkersRequest {
            renewals: vec![v1::Renewal {
                family,
                nonce,
                ..v1::Renewal::default()
            }],
        }
        .encode_to_vec(),
        "/seqsvr.v1.Ids/ReleaseWorker" => v1::ReleaseWorkerRequest {
            family,
            nonce,
            ..v1::ReleaseWorkerRequest::default()
        }
        .encode_to_vec(),
        _ => Vec::new(),
    }
}

fn next_many(name: &str) -> v1::NextManyRequest {
    v1::NextManyRequest {
        namespace: name.to_owned(),
        uids: vec![TAKEN],
        ..v1::NextManyRequest::default()
    }
}

fn next_ids(name: &str) -> v1::NextIdsRequest {
    v1::NextIdsRequest {
        family: name.to_owned(),
        ..v1::NextIdsRequest::default()
    }
}

fn current(name: &str) -> v1::CurrentRequest {
    v1::CurrentRequest {
        namespace: name.to_owned(),
        key_kind: Some(current_request::KeyKind::Uid(TAKEN)),
        ..v1::CurrentRequest::default()
    }
}

/// A caller: its connection, and what its calls show.
#[derive(Clone)]
struct Shown {
    channel: Channel,
    authorization: Vec<String>,
}

impl Shown {
    /// Calls a method with these messages. Returns its status and the messages of its answer.
    async fn call(&self, path: &str, messages: &[Vec<u8>]) -> (Status, Vec<bytes::Bytes>) {
        let mut body = BytesMut::new();
        for message in messages {
            body.put_u8(0);
            body.put_u32(message.len() as u32);
            body.put_slice(message);
        }
        let mut request = Request::post(path)
            .header(header::CONTENT_TYPE, "application/grpc")
            .header(header::TE, "trailers")
            .body(Body::new(Full::new(body.freeze())))
            .unwrap();
        for value in &self.authorization {
            let value = value.parse().unwrap();
            request.headers_mut().append(header::AUTHORIZATION, value);
        }
        let answering = async {
            let answer = self.channel.clone().oneshot(request).await.expect(path);
            let head = status_of(answer.headers());
            let collected = answer.into_body().collect().await.expect(path);
            let end = collected.trailers().and_then(status_of);
            (head.or(end).expect(path), collected.to_bytes())
        };
        let (status, mut data) = timeout(TEST_TIMEOUT, answering).await.expect(path);
        let mut messages = Vec::new();
        while !data.is_empty() {
            data.advance(1);
            let bytes = data.get_u32() as usize;
            messages.push(data.split_to(bytes));
        }
        (status, messages)
    }

    /// Calls a unary method. A renewal that was denied counts as a call that was.
    async fn call_for(&self, path: &str, name: &str) -> Status {
        let (status, answers) = self.call(path, &[request_for(path, name)]).await;
        if path != "/seqsvr.v1.Ids/RenewWorkers" || status.code() != Code::Ok {
            return status;
        }
        let answer = v1::RenewWorkersResponse::decode(&*answers[0]).unwrap();
        match answer.results[0].result.clone().unwrap() {
            Outcome::Error(error) => RpcError::from_item_error(error).into(),
            _ => status,
        }
    }

    /// Sends a frame of each kind for these names in one Pipe. Returns the errors in their order.
    async fn pipe(&self, names: &[&str]) -> Vec<Option<RpcError>> {
        let frames = names.iter().flat_map(|name| {
            let current = v1::CurrentManyRequest {
                namespace: (*name).to_owned(),
                uids: vec![TAKEN],
                ..v1::CurrentManyRequest::default()
            };
            [
                Operation::Next(next_many(name)),
                Operation::Current(current),
                Operation::Ids(next_ids(name)),
            ]
        });
        let frame = |(id, operation)| v1::PipeRequest {
            id: id as u64,
            operation: Some(operation),
            ..v1::PipeRequest::default()
        };
        let frames: Vec<_> = frames.enumerate().map(frame).collect();
        let frames: Vec<_> = frames.iter().map(Message::encode_to_vec).collect();
        let (status, answers) = self.call("/seqsvr.v1.Sequence/Pipe", &frames).await;
        assert_eq!(status.code(), Code::Ok, "{status}");
        let mut errors = vec![None; frames.len()];
        let mut count = 0;
        for answer in answers {
            let answer = v1::PipeResponse::decode(&*answer).unwrap();
            let error = match answer.answer {
                Some(Answer::Rejected(error)) => Some(RpcError::from_item_error(error)),
                Some(Answer::Next(next)) => {
                    assert_eq!((next.errors.len(), next.firsts.len()), (0, 1));
                    None
                }
                Some(Answer::Current(current)) => {
                    assert_eq!((current.errors.len(), current.values.len()), (0, 1));
                    None
                }
                Some(Answer::Ids(ids)) => {
                    assert_eq!(ids.ids.len(), 1);
                    None
                }
                None => continue,
            };
            errors[answer.id as usize] = error;
            count += 1;
        }
        assert_eq!(count, frames.len(), "each frame is answered once");
        errors
    }

    /// Returns the names of the namespaces and families in its routes.
    async fn visible_names(&self) -> Vec<String> {
        let request = v1::RoutesRequest::default().encode_to_vec();
        let (status, answers) = self.call("/seqsvr.v1.Sequence/Routes", &[request]).await;
        assert_eq!(status.code(), Code::Ok, "{status}");
        let table = v1::RoutingTable::decode(&*answers[0]).unwrap();
        let delta = seqsvr_core::routing_table::RoutingDelta::try_from(&table).unwrap();
        assert_eq!(delta.routes.len(), 4, "all slots");
        let namespaces = delta.namespaces.into_iter().map(|n| n.spec.name);
        let families = delta.families.into_iter();
        let families = families.map(|f| format!("@ids/{}", f.spec.name));
        namespaces.chain(families).collect()
    }
}

fn status_of(headers: &HeaderMap) -> Option<Status> {
    Status::from_header_map(headers)
}

/// A cluster with principals, one for each of [`RIGHTS`].
struct PrincipalCluster {
    secured: SecuredCluster,
    tokens: Vec<Secret>,
}

impl PrincipalCluster {
    async fn start() -> PrincipalCluster {
        let tokens = RIGHTS.map(|_| Secret::generate().unwrap()).to_vec();
        let tables = RIGHTS.iter().zip(&tokens).enumerate();
        let tables = tables.map(|(i, (rights, token))| {
            let hash = token.hash();
            format!("[[principal]]\nname='p{i}'\nsha256=['{hash}']\n{rights}\n")
        });
        let file = AccessFile::parse(&tables.collect::<String>()).unwrap();
        let secured = SecuredCluster::start_with(Access::by_file(file)).await;
        let client = secured.client_of("admin");
        let admin = client.admin();
        wait_until("both AllocSvrs and all slots", TEST_TIMEOUT, async || {
            let status = admin.cluster_status().await.ok()?;
            (status.sessions.len() == 2 && status.free_slots == 0).then_some(())
        })
        .await;
        for name in ["orders", "other"] {
            let spec = dense_namespace(name, 1_000, 1_000_000, 100);
            admin.create_namespace(&spec).await.unwrap();
            let layout = "0:1,time:41,worker:10,seq:12".parse().unwrap();
            let spec = FamilySpec::new(name, layout, TickScale::new(EPOCH_MS, 1).unwrap());
            create_family(&admin, &spec).await;
        }
        let cluster = PrincipalCluster { secured, tokens };
        let operator = cluster.certified("admin", "alice");
        wait_until("the new names everywhere", TEST_TIMEOUT, async || {
            let names = operator.visible_names().await;
            let found = ["orders", "other", "@ids/orders", "@ids/other"];
            found
                .iter()
                .all(|name| names.iter().any(|n| n == name))
                .then_some(())
        })
        .await;
        cluster
    }

    fn channel_over(&self, transport: Arc<dyn Transport>) -> Channel {
        let pool = ChannelPool::with_transport(transport);
        pool.get(&self.secured.alloc_address(0)).unwrap()
    }

    fn certified(&self, role: &str, name: &str) -> Shown {
        let (ca, dir) = (&self.secured.ca, self.secured.dir.path());
        Shown {
            channel: self.channel_over(write_certificate(ca, dir, role, name)),
            authorization: Vec::new(),
        }
    }

    /// Returns a caller without a certificate that shows these values of `authorization`.
    fn with_values(&self, values: &[&str]) -> Shown {
        let dir = self.secured.dir.path().join("alloc-a1");
        Shown {
            channel: self.channel_over(CaTransport::from_file(&dir.join("ca.pem")).unwrap()),
            authorization: values.iter().map(|value| (*value).to_owned()).collect(),
        }
    }

    fn bearer(&self, principal: usize) -> String {
        format!("Bearer {}", self.tokens[principal].expose())
    }

    /// Returns each principal with its right: by its token, and by its certificate.
    fn principals(&self) -> Vec<(&'static str, Shown)> {
        let of = |(i, right): (usize, &&'static str)| {
            let by_token = self.with_values(&[&self.bearer(i)]);
            [by_token, self.certified("client", &format!("p{i}"))].map(|shown| (*right, shown))
        };
        RIGHTS.iter().enumerate().flat_map(of).collect()
    }

    /// Returns the last number of a uid, and how it is known.
    async fn last_number(&self, namespace: &str) -> (u64, CurrentKind) {
        let operator = self.certified("admin", "alice");
        let path = "/seqsvr.v1.Sequence/Current";
        let request = current(namespace).encode_to_vec();
        let (status, answers) = operator.call(path, &[request]).await;
        assert_eq!(status.code(), Code::Ok, "{status}");
        let answer = v1::CurrentResponse::decode(&*answers[0]).unwrap();
        (answer.value, answer.kind())
    }
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

/// Begins a call of a standard service. Returns its status, if the head of the answer has one.
async fn begin(shown: &Shown, path: &str) -> Option<Status> {
    let mut request = Request::post(path)
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .body(Body::new(Full::new(Bytes::from_static(&[0; 5]))))
        .unwrap();
    for value in &shown.authorization {
        let value = value.parse().unwrap();
        request.headers_mut().append(header::AUTHORIZATION, value);
    }
    let calling = shown.channel.clone().oneshot(request);
    let answer = timeout(TEST_TIMEOUT, calling).await.expect(path);
    status_of(answer.expect(path).headers())
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
    cluster.secured.shutdown().await;
}
