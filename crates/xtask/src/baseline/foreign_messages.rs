//! Messages of services whose contract is not in this repository: fields that the generator needs,
//! by their numbers in the public contracts.

use prost::Message;

/// Both ways of the bare stream: uids, and their numbers.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Numbers {
    #[prost(uint64, repeated, tag = "1")]
    pub(super) of: Vec<u64>,
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
    #[prost(oneof = "Operation", tags = "1, 2")]
    pub(super) operation: Option<Operation>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Operation {
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
    /// How often the key was written: its sequence, if every number is one write.
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
