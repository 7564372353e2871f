//! Pipe, as a caller without the SDK uses it.
//!
//! Fault: the stores are stopped, so that single items wait.

use std::time::Duration;

use seqsvr_alloc::AllocServer;
use seqsvr_client::{Code, Reason};
use seqsvr_proto::v1::{
    CurrentKind, CurrentManyRequest, NextManyRequest, NextManyResponse, PipeRequest, PipeResponse,
    pipe_request, pipe_response,
};
use seqsvr_test_support::in_process::{
    InProcessCluster, LEASE, create_namespace, dense_namespace, new_caller, new_client,
    read_counter, wait_until_assigned,
};
use seqsvr_test_support::wait::TEST_TIMEOUT;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::Streaming;

struct PipeCaller {
    frames: mpsc::Sender<PipeRequest>,
    answers: Streaming<PipeResponse>,
}

impl PipeCaller {
    async fn open(alloc: &AllocServer) -> PipeCaller {
        let (frames, mut out) = mpsc::channel(64);
        let mut caller = new_caller(alloc).await;
        let out = futures::stream::poll_fn(move |cx| out.poll_recv(cx));
        let answers = caller.pipe(out).await.unwrap();
        PipeCaller {
            frames,
            answers: answers.into_inner(),
        }
    }

    async fn send(&self, id: u64, next: NextManyRequest) {
        let frame = PipeRequest {
            id,
            timeout_ms: 1_500,
            operation: Some(pipe_request::Operation::Next(next)),
        };
        self.frames.send(frame).await.unwrap();
    }

    /// Returns the next answer; `None` at the end of the stream.
    async fn read_answer(&mut self) -> Option<PipeResponse> {
        let answer = timeout(TEST_TIMEOUT, self.answers.message()).await;
        answer.expect("an answer in time").unwrap()
    }

    async fn read_numbers(&mut self) -> (u64, Vec<u32>, NextManyResponse) {
        let answer = self.read_answer().await.expect("an answer");
        match answer.answer {
            Some(pipe_response::Answer::Next(next)) => (answer.id, answer.items, next),
            other => panic!("{other:?}"),
        }
    }

    async fn read_rejection(&mut self) -> (u64, Reason, String) {
        let answer = self.read_answer().await.expect("an answer");
        match answer.answer {
            Some(pipe_response::Answer::Rejected(error)) => {
                (answer.id, error.reason(), error.message)
            }
            other => panic!("{other:?}"),
        }
    }
}

fn rows_request(uids: &[u64]) -> NextManyRequest {
    NextManyRequest {
        namespace: "rows".into(),
        uids: uids.to_vec(),
        ..NextManyRequest::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipe_frames_are_answered_packed_and_slow_items_apart() {
    // A long lease: loaded sections are served while no store runs.
    let mut cluster = InProcessCluster::start(1, 10 * LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    create_namespace(&allocs, &dense_namespace("rows", 10, 1_000, 1_000)).await;
    let mut pipe = PipeCaller::open(&allocs[0]).await;
    pipe.send(1, rows_request(&[1, 2, 1])).await;
    let (id, items, next) = pipe.read_numbers().await;
    assert_eq!((id, next.firsts), (1, vec![1, 1, 2]));
    assert!(
        next.lasts.is_empty() && next.epochs.len() == 1,
        "not packed"
    );
    // The frame opened the sections, so the slow path answered it, which names its items.
    assert_eq!(items, [0, 1, 2]);

    let counted = NextManyRequest {
        counts: vec![2, 3],
        ..rows_request(&[1, 2])
    };
    pipe.send(2, counted).await;
    let (id, items, next) = pipe.read_numbers().await;
    assert_eq!((id, items.len()), (2, 0), "from memory, whole");
    assert_eq!((next.firsts, next.lasts), (vec![3, 2], vec![4, 4]));

    cluster.stop_stores().await;
    // uid 500 cannot be opened without a store; a bad count fails only its item.
    let mixed = NextManyRequest {
        counts: vec![1, 1, 0, 1],
        ..rows_request(&[1, 500, 2, 2])
    };
    pipe.send(3, mixed).await;
    pipe.send(4, rows_request(&[7])).await;
    let (id, items, next) = pipe.read_numbers().await;
    assert_eq!((id, items, next.firsts), (3, vec![0, 3], vec![5, 5]));
    let (id, _, next) = pipe.read_numbers().await;
    assert_eq!((id, next.firsts), (4, vec![1]), "not behind the slow one");
    let (id, items, next) = pipe.read_numbers().await;
    assert_eq!((id, items, next.firsts), (3, vec![1, 2], vec![0, 0]));
    let errors: Vec<_> = next.errors.iter().map(|e| (e.index, e.code)).collect();
    let codes = [Code::Unavailable, Code::InvalidArgument].map(|code| code as i32);
    assert_eq!(errors, [(0, codes[0]), (1, codes[1])]);
    drop(pipe);
    cluster.stop(&[]).await;
}

/// Sends more frames than are answered together, a bad one among every ten, then ends the caller's
/// side.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipe_frames_sent_at_once_are_each_answered_once() {
    const FRAMES: u64 = 1_000;
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    create_namespace(&allocs, &dense_namespace("rows", 10, 1_000, 1_000)).await;
    new_client(&allocs[..1])
        .namespace("rows")
        .next(1)
        .await
        .unwrap();
    let mut caller = new_caller(&allocs[0]).await;
    let frame = |id: u64| PipeRequest {
        id,
        timeout_ms: 5_000,
        operation: match id % 10 {
            7 => None,
            _ => Some(pipe_request::Operation::Next(rows_request(&[
                1,
                id % 10,
                1,
            ]))),
        },
    };
    let frames: Vec<PipeRequest> = (0..FRAMES).map(frame).collect();
    let answers = caller.pipe(futures::stream::iter(frames)).await.unwrap();
    let mut pipe = PipeCaller {
        frames: mpsc::channel(1).0,
        answers: answers.into_inner(),
    };
    let (mut answered, mut numbers) = (vec![0; FRAMES as usize], Vec::new());
    while let Some(answer) = pipe.read_answer().await {
        match answer.answer {
            Some(pipe_response::Answer::Next(next)) => {
                let whole = answer.items.is_empty();
                answered[answer.id as usize] += if whole { 3 } else { answer.items.len() };
                let items: Vec<u32> = match whole {
                    true => vec![0, 1, 2],
                    false => answer.items,
                };
                let of_one = items.iter().zip(&next.firsts);
                numbers.extend(of_one.filter(|(i, _)| **i != 1).map(|(_, first)| *first));
                assert!(next.errors.is_empty(), "{:?}", next.errors);
            }
            Some(pipe_response::Answer::Rejected(why)) => {
                assert_eq!((answer.id % 10, why.reason()), (7, Reason::Invalid));
                answered[answer.id as usize] += 3;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(answered.iter().all(|items| *items == 3), "{answered:?}");
    numbers.sort_unstable();
    assert!(numbers.is_sorted_by(|a, b| a < b), "a number came twice");
    assert_eq!(numbers.len() as u64, 2 * (FRAMES - FRAMES / 10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_pipe_frames_are_rejected_and_the_pipe_continues() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    create_namespace(&allocs, &dense_namespace("rows", 10, 1_000, 1_000)).await;
    let mut pipe = PipeCaller::open(&allocs[0]).await;
    let both = NextManyRequest {
        keys: vec![b"k".as_slice().into()],
        ..rows_request(&[1])
    };
    let uneven = NextManyRequest {
        floors: vec![1],
        ..rows_request(&[1, 2])
    };
    let heavy = NextManyRequest {
        counts: vec![100_000; 101],
        ..rows_request(&[1; 101])
    };
    for (id, bad, reason) in [
        (1, rows_request(&[]), Reason::Invalid),
        (2, both, Reason::Invalid),
        (3, uneven, Reason::Invalid),
        (4, rows_request(&[1; 10_001]), Reason::LimitExceeded),
        (5, heavy, Reason::LimitExceeded),
    ] {
        pipe.send(id, bad).await;
        let (of, why, text) = pipe.read_rejection().await;
        assert_eq!((of, why), (id, reason), "{text}");
    }
    pipe.frames.send(PipeRequest::default()).await.unwrap();
    assert_eq!(pipe.read_rejection().await.1, Reason::Invalid);

    let unknown = NextManyRequest {
        namespace: "none".into(),
        ..rows_request(&[1])
    };
    pipe.send(6, unknown).await;
    let (_, _, next) = pipe.read_numbers().await;
    assert_eq!(next.errors[0].reason(), Reason::NamespaceNotFound);
    pipe.send(7, rows_request(&[1])).await;
    assert_eq!(pipe.read_numbers().await.2.firsts, [1], "nothing was taken");

    let current = PipeRequest {
        id: 8,
        timeout_ms: 0,
        operation: Some(pipe_request::Operation::Current(CurrentManyRequest {
            namespace: "rows".into(),
            uids: vec![1, 2, 900],
            ..CurrentManyRequest::default()
        })),
    };
    pipe.frames.send(current).await.unwrap();
    let mut kinds = vec![CurrentKind::Unspecified; 3];
    while kinds.contains(&CurrentKind::Unspecified) {
        let answer = pipe.read_answer().await.unwrap();
        let Some(pipe_response::Answer::Current(current)) = answer.answer else {
            panic!("{answer:?}");
        };
        for (item, kind) in answer.items.iter().zip(current.kinds()) {
            kinds[*item as usize] = kind;
        }
    }
    let (exact, never) = (CurrentKind::Exact, CurrentKind::Never);
    assert_eq!(kinds, [exact, never, never]);

    // A floor that was never issued is an alarm, and an error of its item alone.
    let floor = NextManyRequest {
        floors: vec![1_000_000, 1],
        ..rows_request(&[1, 1])
    };
    pipe.send(9, floor).await;
    let (_, items, next) = pipe.read_numbers().await;
    assert_eq!((items, next.firsts.len()), (vec![1], 1));
    let (_, items, next) = pipe.read_numbers().await;
    assert_eq!(items, [0]);
    assert_eq!(next.errors[0].reason(), Reason::FloorAhead);
    assert_eq!(read_counter(&allocs[0], "causality_violations").await, 1);

    let strict = NextManyRequest {
        strict: true,
        ..rows_request(&[2, 3])
    };
    pipe.send(10, strict).await;
    assert_eq!(pipe.read_numbers().await.2.firsts, [1, 1]);
    drop(pipe);
    cluster.stop(&allocs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipe_of_stopping_alloc_answers_received_frames() {
    // 1. Send frames through a pipe to an AllocSvr that will stop.
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1", "a2"]).await;
    let [leaving, staying] = allocs.clone();
    // A caller without routes: half of these are forwarded to the other owner.
    let uids: Vec<u64> = (0..40).map(|i| i * 100_000).collect();
    let all = |round: u64| {
        (
            round,
            NextManyRequest {
                uids: uids.clone(),
                ..Default::default()
            },
        )
    };
    let mut pipe = PipeCaller::open(&leaving).await;
    let mut got = 0;
    for (id, frame) in (1..=3).map(all) {
        pipe.send(id, frame).await;
        let mut answered = 0;
        while answered < uids.len() {
            let (_, _, next) = pipe.read_numbers().await;
            assert_eq!(next.errors, []);
            answered += next.firsts.len();
            assert!(next.firsts.iter().all(|first| *first == id));
        }
        got += answered;
    }
    assert_eq!(got, 120);
    assert!(read_counter(&leaving, "forwarded").await > 0);

    // 2. Take numbers through the SDK, which uses a pipe as well.
    let sdk = new_client(&allocs);
    for uid in &uids {
        sdk.default_namespace().next(*uid).await.unwrap();
    }

    // 3. Stop the AllocSvr: it announces that, and still answers a frame that is sent afterwards.
    let stop = tokio::spawn({
        let leaving = leaving.clone();
        async move { leaving.shutdown().await }
    });
    while !pipe
        .read_answer()
        .await
        .expect("the notice that it stops")
        .go_away
    {}
    let (id, frame) = all(9);
    pipe.send(id, frame).await;
    let PipeCaller { frames, answers } = pipe;
    drop(frames);
    let (sender, _) = mpsc::channel(1);
    let mut pipe = PipeCaller {
        frames: sender,
        answers,
    };
    let mut answered = 0;
    while let Some(answer) = pipe.read_answer().await {
        let Some(pipe_response::Answer::Next(next)) = answer.answer else {
            panic!("{answer:?}");
        };
        assert_eq!(next.errors, []);
        answered += next.firsts.len();
    }
    assert_eq!(answered, uids.len());

    // 4. The SDK continues at the other AllocSvr.
    timeout(Duration::from_secs(3), stop)
        .await
        .expect("nothing keeps it")
        .unwrap();
    wait_until_assigned(std::slice::from_ref(&staying)).await;
    for uid in &uids {
        assert_eq!(sdk.default_namespace().next(*uid).await.unwrap().first, 6);
    }
    assert_eq!(*sdk.wait_status().borrow(), None);
    cluster.stop(&[staying]).await;
}
