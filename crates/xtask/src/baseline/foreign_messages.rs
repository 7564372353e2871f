//! Messages of services whose definition is not in this repository. They have the fields that the
//! load generator needs, with the numbers of the public definitions.

use prost::Message;

/// Request and response frame of the baseline stream: uids, and their numbers.
#[derive(Clone, PartialEq, Message)]
pub(super) struct NumberFrame {
    #[prost(uint64, repeated, tag = "1")]
    pub(super) values: Vec<u64>,
}

/// `etcdserverpb.TxnRequest` without comparisons.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TxnRequest {
    #[prost(message, repeated, tag = "2")]
    pub(super) success: Vec<RequestOp>,
}

/// `etcdserverpb.RequestOp`
#[derive(Clone, PartialEq, Message)]
pub(super) struct RequestOp {
    #[prost(oneof = "EtcdOperation", tags = "1, 2")]
    pub(super) operation: Option<EtcdOperation>,
}

/// Request of `etcdserverpb.RequestOp`.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum EtcdOperation {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
}

/// `etcdserverpb.RangeRequest`
#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
}

/// `etcdserverpb.PutRequest`
#[derive(Clone, PartialEq, Message)]
pub(super) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
}

/// `etcdserverpb.TxnResponse`
#[derive(Clone, PartialEq, Message)]
pub(super) struct TxnResponse {
    #[prost(message, repeated, tag = "3")]
    pub(super) responses: Vec<ResponseOp>,
}

/// `etcdserverpb.ResponseOp` of a range.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ResponseOp {
    #[prost(message, optional, tag = "1")]
    pub(super) range: Option<RangeResponse>,
}

/// `etcdserverpb.RangeResponse`
#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeResponse {
    #[prost(message, repeated, tag = "2")]
    pub(super) kvs: Vec<KeyValue>,
}

/// `mvccpb.KeyValue`
#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    /// Number of writes of the key; its sequence, if each number is one write.
    #[prost(int64, tag = "4")]
    pub(super) version: i64,
}

/// `tsoracle.v1.GetSeqRequest`
#[derive(Clone, PartialEq, Message)]
pub(super) struct GetSeqRequest {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(uint32, tag = "2")]
    pub(super) count: u32,
}

/// `tsoracle.v1.GetSeqResponse`
#[derive(Clone, PartialEq, Message)]
pub(super) struct GetSeqResponse {
    #[prost(uint64, tag = "2")]
    pub(super) start: u64,
}
