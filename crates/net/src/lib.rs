//! Connections between processes: how they are made, accepted, kept and limited.
//!
//! What lives here: [`Transport`] and [`Listener`], the seam through which a simulation replaces
//! TCP; [`ChannelPool`], the kept channels of a caller; [`ConnectionLimiter`], [`ConnectionQuota`],
//! [`CallLimiter`] and [`ByteBudget`], which bound what callers can make a server hold;
//! [`tls`], certificates and roles; [`SharedCall`], one answer for all callers that wait
//! for it; [`LocalSequence`], the service in the same process.
//!
//! What it may not know: what a call does; which process serves or calls; numbers and leases.

mod byte_budget;
mod call_limiter;
mod call_reservation;
mod channel_pool;
mod connection_limiter;
mod connection_quota;
mod entry_scanner;
#[cfg(fuzzing)]
pub mod fuzz;
mod http2_limits;
mod line_throttle;
mod local_sequence;
mod peer;
mod shared_call;
pub mod tls;
mod transport;

pub use byte_budget::{ByteBudget, add_within};
pub use call_limiter::{
    CallLimiter, CallRight, CallRule, CallShape, ChangeLog, LimitedService, RetainedBytes, Roles,
    STORE_BYTES_MAX, StreamMeter, judge_caller, take_bearer_token,
};
pub use call_reservation::{CALLS_IN_FLIGHT_MAX, CONTROL_REQUEST_BYTES_MAX, STANDARD_STREAMS_MAX};
pub use channel_pool::{BadTokenFile, CHANNELS_MAX, ChannelPool, TokenFile, TokenNotSent};
pub use connection_limiter::{
    ConnectionLimiter, LimitedConnection, accept_connections, handle_accept_error,
};
pub use connection_quota::{
    CONNECTION_BUFFERED_BYTES_MAX, ConnectionQuota, UnsentResponse, WRITE_STALL_TIMEOUT, caller_of,
};
pub use http2_limits::{limit_http2, limit_http2_connection};
pub use local_sequence::LocalSequence;
pub use peer::{ConnectionCaller, ConnectionPeer, PeerCertificate};
pub use shared_call::SharedCall;
pub use transport::{
    ByteStream, GOODBYE_TIMEOUT, Listener, OPEN_FILES_REMEDY, OpenConnection, PendingConnection,
    TcpTransport, Transport, connect_lazy, find_cause, for_role, has_no_frames,
    is_out_of_descriptors, is_refused, say_goodbye, with_open_files_remedy,
};
