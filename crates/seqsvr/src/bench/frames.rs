//! Frames of a caller's own on one Pipe, as a program does that merges its calls itself: each call is
//! a frame, and its answers are matched by the frame's id.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use seqsvr_client::{Code, Error, Key, Numbers};
use seqsvr_proto::v1::{PipeRequest, PipeResponse, pipe_request, pipe_response};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::plain::{Plain, item_error, next_many, numbers, status_error};

/// Frames that may wait for the connection.
const QUEUE: usize = 64;

/// A Pipe and the frames on it.
pub(crate) struct Frames {
    plain: Plain,
    sender: mpsc::Sender<PipeRequest>,
    under_way: Arc<Mutex<UnderWay>>,
    reader: JoinHandle<()>,
}

#[derive(Default)]
struct UnderWay {
    last: u64,
    frames: HashMap<u64, Frame>,
    /// Why no frame will be answered any more.
    ended: Option<Status>,
}

/// One frame, and what of it has been answered.
struct Frame {
    count: u32,
    stride: u32,
    left: usize,
    results: Vec<Result<Numbers, Error>>,
    done: oneshot::Sender<Vec<Result<Numbers, Error>>>,
}

impl Frames {
    pub(crate) fn open(plain: Plain) -> Frames {
        let (sender, requests) = mpsc::channel(QUEUE);
        let under_way = Arc::default();
        let read = read(
            plain.clone(),
            ReceiverStream::new(requests),
            Arc::clone(&under_way),
        );
        Frames {
            plain,
            sender,
            under_way,
            reader: tokio::spawn(read),
        }
    }

    /// Asks for `count` numbers of each key, in one frame.
    pub(crate) async fn next_many(
        &self,
        namespace: &str,
        keys: Vec<Key>,
        count: u32,
    ) -> Vec<Result<Numbers, Error>> {
        let items = keys.len();
        let unanswered = || {
            vec![
                Err(status_error(&Status::cancelled(
                    "the frame was not answered"
                )));
                items
            ]
        };
        let (done, answer) = oneshot::channel();
        let frame = Frame {
            count,
            stride: self.plain.stride(namespace),
            left: items,
            results: unanswered(),
            done,
        };
        let id = {
            let mut under_way = self.under_way.lock();
            if let Some(status) = &under_way.ended {
                return vec![Err(status_error(status)); items];
            }
            under_way.last += 1;
            let id = under_way.last;
            under_way.frames.insert(id, frame);
            id
        };
        let request = PipeRequest {
            id,
            timeout_ms: u32::try_from(self.plain.timeout.as_millis()).unwrap_or(u32::MAX),
            ask: Some(pipe_request::Ask::Next(next_many(namespace, keys, count))),
        };
        // If the reader is gone it has ended the frame, or ends it now.
        let _ = self.sender.send(request).await;
        answer.await.unwrap_or_else(|_| unanswered())
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Reads answers until the Pipe ends; then every frame under way has failed.
async fn read(
    mut plain: Plain,
    requests: ReceiverStream<PipeRequest>,
    under_way: Arc<Mutex<UnderWay>>,
) {
    let status = match plain.client.pipe(requests).await {
        Ok(opened) => answers(opened.into_inner(), &under_way).await,
        Err(status) => status,
    };
    let mut under_way = under_way.lock();
    for (_, frame) in under_way.frames.drain() {
        let failed = vec![Err(status_error(&status)); frame.results.len()];
        // A caller that is gone needs none.
        let _ = frame.done.send(failed);
    }
    under_way.ended = Some(status);
}

async fn answers(mut pipe: Streaming<PipeResponse>, under_way: &Mutex<UnderWay>) -> Status {
    loop {
        match pipe.message().await {
            Ok(Some(answer)) => under_way.lock().answered(answer),
            Ok(None) => return Status::new(Code::Unavailable, "the AllocSvr ended the Pipe"),
            Err(status) => return status,
        }
    }
}

impl UnderWay {
    fn answered(&mut self, answer: PipeResponse) {
        let Some(frame) = self.frames.get_mut(&answer.id) else {
            return;
        };
        let items = answer.items.iter().map(|i| *i as usize);
        let places: Vec<usize> = match answer.items.is_empty() {
            true => (0..frame.results.len()).collect(),
            false => items.collect(),
        };
        let answers = match answer.answer {
            Some(pipe_response::Answer::Next(next)) => {
                numbers(&next, places.len(), frame.count, frame.stride)
            }
            Some(pipe_response::Answer::Refused(why)) => vec![Err(item_error(&why)); places.len()],
            Some(pipe_response::Answer::Current(_)) | None => return,
        };
        for (place, answer) in places.iter().zip(answers) {
            if let Some(result) = frame.results.get_mut(*place) {
                *result = answer;
                frame.left = frame.left.saturating_sub(1);
            }
        }
        if frame.left == 0
            && let Some(frame) = self.frames.remove(&answer.id)
        {
            // A caller that is gone needs none.
            let _ = frame.done.send(frame.results);
        }
    }
}
