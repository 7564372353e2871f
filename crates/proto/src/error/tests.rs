use super::*;

#[test]
fn rpc_error_survives_the_wire() {
    let fault = RpcError::new(Reason::NotLeader, "ask the leader")
        .with_leader(Some("127.0.0.1:7801".into()));
    let back = RpcError::from_status(&Status::from(fault));
    assert_eq!(back.code, Code::FailedPrecondition);
    assert_eq!(back.reason(), Reason::NotLeader);
    assert_eq!(back.detail.leader, "127.0.0.1:7801");
    assert_eq!(back.message, "ask the leader");
}

fn details(fault: RpcError) -> Vec<prost_types::Any> {
    let status = Status::from(fault);
    RpcStatus::decode(status.details()).unwrap().details
}

#[test]
fn standard_error_details_follow_ours() {
    let fault = RpcError::new(Reason::Overloaded, "wait")
        .with_leader(Some("a:1".into()))
        .with_retry_after_ms(1_250);
    let [ours, info, retry] = details(fault).try_into().unwrap();
    assert_eq!(ours.type_url, ERROR_DETAIL_URL);
    assert_eq!(info.type_url, "type.googleapis.com/google.rpc.ErrorInfo");
    let info = ErrorInfo::decode(&*info.value).unwrap();
    assert_eq!((&*info.reason, &*info.domain), ("OVERLOADED", "seqsvr"));
    assert_eq!(info.metadata["leader"], "a:1");
    assert_eq!(retry.type_url, "type.googleapis.com/google.rpc.RetryInfo");
    let delay = RetryInfo::decode(&*retry.value).unwrap().retry_delay;
    let delay = delay.unwrap();
    assert_eq!((delay.seconds, delay.nanos), (1, 250_000_000));
}

#[test]
fn absent_retry_and_reason_add_no_detail() {
    assert_eq!(details(RpcError::new(Reason::NotOwner, "m")).len(), 2);
    assert_eq!(details(RpcError::new(Reason::Unspecified, "m")).len(), 1);
}

/// Routes come with each NOT_OWNER of a plain call.
#[test]
fn standard_error_details_are_small() {
    let with = Status::from(RpcError::new(Reason::NotOwner, "m"))
        .details()
        .len();
    let without = Status::from(RpcError::new(Reason::Unspecified, "m"))
        .details()
        .len();
    assert!(with - without <= 70, "{with} {without}");
}

#[test]
fn status_of_another_server_has_no_reason() {
    let fault = RpcError::from_status(&Status::unavailable("connection refused"));
    assert_eq!(
        (fault.code, fault.reason()),
        (Code::Unavailable, Reason::Unspecified)
    );
}

#[test]
fn invalid_cluster_tag_is_the_callers_mistake() {
    let fault = RpcError::from_status(&Status::from(InvalidClusterTag));
    assert_eq!(fault.code, Code::InvalidArgument);
    assert_eq!(fault.reason(), Reason::Invalid);
    assert_eq!(
        fault.message,
        "metadata seqsvr-cluster-tag must have 16 hexadecimal digits"
    );
}
