//! A gRPC client of one server without the SDK, and how to read its answers.

mod unary;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use seqsvr_client::{Code, Current, CurrentKind, Error, IssuedRange, Reason};
use seqsvr_net::ChannelPool;
use seqsvr_proto::cluster_tag::{ClusterTag, ClusterTagged};
use seqsvr_proto::error::{RpcError, cluster_mismatch_error};
use seqsvr_proto::limits::MESSAGE_BYTES_MAX;
use seqsvr_proto::v1;
use seqsvr_proto::v1::sequence_client::SequenceClient;
use seqsvr_proto::v1::{ItemError, NextManyRequest, NextManyResponse, PipeRequest, PipeResponse};
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Extensions, Request, Response, Status, Streaming};

/// Client of one server with its own connection.
#[derive(Clone)]
pub(crate) struct DirectClient {
    pub(crate) client: SequenceClient<Channel>,
    /// Distance between the numbers of each namespace.
    strides: Arc<HashMap<String, u32>>,
    /// Deadline of a call.
    pub(crate) timeout: Duration,
    /// Cluster that is measured. Numbers of another cluster must not count.
    cluster: ClusterTag,
    /// The token of the caller, if it has one.
    authorization: Arc<MetadataMap>,
}

impl DirectClient {
    /// Creates a client that connects at its first call.
    ///
    /// # Errors
    /// The address is malformed, or must not receive the token.
    pub(crate) fn new(
        server: &str,
        channels: &ChannelPool,
        strides: Arc<HashMap<String, u32>>,
        timeout: Duration,
        cluster: ClusterTag,
    ) -> anyhow::Result<DirectClient> {
        let client = SequenceClient::new(channels.separate().get(server)?);
        let mut authorization = MetadataMap::new();
        channels.authorize(server, &mut authorization)?;
        Ok(DirectClient {
            client: client.max_decoding_message_size(MESSAGE_BYTES_MAX),
            strides,
            timeout,
            cluster,
            authorization: Arc::new(authorization),
        })
    }

    /// Makes a request with the cluster and the deadline.
    pub(crate) fn build_request<T: ClusterTagged>(&self, mut message: T) -> Request<T> {
        message.set_cluster_tag(self.cluster);
        let mut request = self.authorize(message);
        request.set_timeout(self.timeout);
        request
    }

    /// Makes a request with the token of the caller.
    fn authorize<T>(&self, message: T) -> Request<T> {
        Request::from_parts((*self.authorization).clone(), Extensions::new(), message)
    }

    /// Opens a Pipe to a server of this cluster.
    pub(crate) async fn open_pipe(
        &self,
        requests: ReceiverStream<PipeRequest>,
    ) -> Result<Streaming<PipeResponse>, Status> {
        let mut request = self.authorize(requests);
        self.cluster.write_metadata(request.metadata_mut());
        let opened = self.client.clone().pipe(request).await?;
        self.check_cluster(ClusterTag::from_metadata(opened.metadata())?)?;
        Ok(opened.into_inner())
    }

    /// Returns the message of a response if it is from this cluster.
    pub(crate) fn check_answer<T: ClusterTagged>(
        &self,
        response: Response<T>,
    ) -> Result<T, Status> {
        let answer = response.into_inner();
        self.check_cluster(answer.cluster_tag())?;
        Ok(answer)
    }

    /// Rejects an answer of a server of another cluster.
    fn check_cluster(&self, server: ClusterTag) -> Result<(), Status> {
        match server.conflicts_with(self.cluster) {
            true => Err(cluster_mismatch_error(server, self.cluster).into()),
            false => Ok(()),
        }
    }

    /// Returns the distance between the numbers of a namespace.
    pub(crate) fn stride_of(&self, namespace: &str) -> u32 {
        self.strides.get(namespace).copied().unwrap_or(1)
    }
}

/// Makes a request for `count` numbers of each of these uids or keys.
pub(crate) fn next_many_request(
    namespace: &str,
    (uids, keys): (Vec<u64>, Vec<Bytes>),
    count: u32,
) -> NextManyRequest {
    let items = uids.len().max(keys.len());
    NextManyRequest {
        namespace: namespace.to_owned(),
        uids,
        keys,
        counts: match count {
            1 => Vec::new(),
            n => vec![n; items],
        },
        ..NextManyRequest::default()
    }
}

/// Returns the answers to `item_count` items, in their order.
pub(crate) fn read_numbers(
    answer: &NextManyResponse,
    item_count: usize,
    count: u32,
    stride: u32,
) -> impl Iterator<Item = Result<IssuedRange, Error>> {
    let mut errors = answer.errors.iter().peekable();
    (0..item_count).map(
        move |i| match errors.next_if(|error| error.index as usize == i) {
            Some(error) => Err(item_error(error)),
            None => read_range(answer, i, count, stride),
        },
    )
}

/// Returns the answer to the i-th item, which did not fail.
#[inline]
fn read_range(
    answer: &NextManyResponse,
    i: usize,
    count: u32,
    stride: u32,
) -> Result<IssuedRange, Error> {
    let find_range = || {
        let first = *answer.firsts.get(i)?;
        let last = match answer.lasts.is_empty() {
            true => first,
            false => *answer.lasts.get(i)?,
        };
        let epoch = match answer.epochs.as_slice() {
            [epoch] => *epoch,
            epochs => *epochs.get(i)?,
        };
        Some((first, last, epoch))
    };
    let (first, last, epoch) = find_range().ok_or_else(malformed_answer)?;
    checked_numbers(first, last, epoch, count, stride)
}

/// Returns an answer if it has exactly `count` numbers.
#[inline]
pub(crate) fn checked_numbers(
    first: u64,
    last: u64,
    epoch: u64,
    count: u32,
    stride: u32,
) -> Result<IssuedRange, Error> {
    let span = u64::from(count - 1) * u64::from(stride);
    if first == 0 || last.checked_sub(first) != Some(span) {
        return Err(malformed_answer());
    }
    Ok(IssuedRange {
        first,
        last,
        epoch,
        stride,
    })
}

/// Converts an answer of `current`.
pub(crate) fn to_current(kind: v1::CurrentKind, value: u64, epoch: u64) -> Result<Current, Error> {
    let kind = match kind {
        v1::CurrentKind::Exact => CurrentKind::Exact,
        v1::CurrentKind::Never => CurrentKind::Never,
        v1::CurrentKind::AtMost => CurrentKind::AtMost,
        v1::CurrentKind::Unspecified => return Err(malformed_answer()),
    };
    Ok(Current { kind, value, epoch })
}

/// Replaces the answers of the items that failed with their errors.
pub(crate) fn insert_failures<T>(answers: &mut [Result<T, Error>], errors: &[ItemError]) {
    for error in errors {
        if let Some(answer) = answers.get_mut(error.index as usize) {
            *answer = Err(item_error(error));
        }
    }
}

/// Converts the error of an item.
pub(crate) fn item_error(item: &ItemError) -> Error {
    let error = RpcError::new(item.reason(), item.message.clone());
    Error::from(error.with_code(Code::from_i32(item.code)))
}

/// Converts the error of a call.
pub(crate) fn status_error(status: &Status) -> Error {
    Error::from(RpcError::from_status(status))
}

fn malformed_answer() -> Error {
    let text = "malformed answer: the versions of bench and server are incompatible";
    Error::from(RpcError::new(Reason::Unspecified, text))
}
