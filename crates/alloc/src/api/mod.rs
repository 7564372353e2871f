//! API of this AllocSvr: gRPC services, and what they share.

pub(crate) mod admin_service;
pub(crate) mod collector;
pub(crate) mod grpc_server;
pub(crate) mod ids_service;
pub(crate) mod pipe_responses;
pub(crate) mod relay_client;
pub(crate) mod routes_service;
pub(crate) mod sequence_parts;
pub(crate) mod sequence_service;
pub(crate) mod slot_operations;
