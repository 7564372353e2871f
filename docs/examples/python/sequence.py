"""Takes numbers from seqsvr without generated code: the server itself describes its methods (reflection).

    pip install grpcio grpcio-reflection grpcio-status
    python3 sequence.py 127.0.0.1:7700 alice                       # a server without TLS
    python3 sequence.py 127.0.0.1:7700 alice pki/client-billing    # with the certificate of `seqsvr cert client`
    python3 sequence.py 127.0.0.1:7700 alice ca.pem billing.token  # with the token of `seqsvr auth add --out`
"""

import pathlib
import random
import sys
import time

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_status import rpc_status


def details(error):
    """Details of an error in addition to code and text: reason, and seconds to wait before a retry."""
    reason, seconds = None, None
    status = rpc_status.from_call(error)
    for detail in status.details if status else []:
        info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
        if detail.Unpack(info):
            reason = info.reason
        elif detail.Unpack(retry):
            seconds = retry.retry_delay.ToTimedelta().total_seconds()
    return reason, seconds


def connect(address, tls=None, token_file=None):
    """Opens the channel of the whole process: it carries many calls at once, and reconnects automatically."""
    if tls is None:
        return grpc.insecure_channel(address)
    if token_file is not None:
        server = grpc.ssl_channel_credentials(pathlib.Path(tls).read_bytes())
        token = grpc.access_token_call_credentials(pathlib.Path(token_file).read_text().strip())
        return grpc.secure_channel(address, grpc.composite_channel_credentials(server, token))
    ca, key, cert = (pathlib.Path(tls, name).read_bytes() for name in ("ca.pem", "key.pem", "cert.pem"))
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(ca, key, cert))


def methods(channel, service):
    """Returns each method of a service: the class of its request, and the call."""
    found = {}
    for method in DescriptorPool(ProtoReflectionDescriptorDatabase(channel)).FindServiceByName(service).methods:
        if not method.client_streaming:
            request, answer = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
            call = channel.unary_unary(
                f"/{service}/{method.name}",
                request_serializer=request.SerializeToString,
                response_deserializer=answer.FromString,
            )
            found[method.name] = (request, call)
    return found


class Sequence:
    def __init__(self, channel):
        self.calls = methods(channel, "seqsvr.v1.Sequence")

    def call_with_retry(self, method, within=5.0, **request):
        """Calls a method and retries temporary errors until the timeout in seconds. A number that an unanswered
        call may have taken is skipped, never given twice, so a retry is always safe."""
        message, call = self.calls[method]
        deadline = time.monotonic() + within
        while True:
            try:
                return call(message(**request), timeout=max(deadline - time.monotonic(), 0.001))
            except grpc.RpcError as error:
                reason, seconds = details(error)
                overloaded = error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and reason == "OVERLOADED"
                if error.code() != grpc.StatusCode.UNAVAILABLE and not overloaded:
                    raise
                # Wait as long as the server requests, plus a little random time, so that clients do not retry together.
                pause = (seconds or 0.05) * random.uniform(1, 1.5)
                if time.monotonic() + pause > deadline:
                    raise
                time.sleep(pause)


def main(address, key, tls=None, token_file=None):
    sequence = Sequence(connect(address, tls, token_file))
    key = key.encode()

    # The next number of one key. A uid (`uid=42`) belongs to the namespace `default`, a key to `keys`.
    print("next", sequence.call_with_retry("Next", key=key).first)

    # Many keys in one call: one, five and one of them. Each item has an answer or an error of its own.
    keys = [key + b"/a", key + b"/b", key + b"/c"]
    many = sequence.call_with_retry("NextMany", keys=keys, counts=[1, 5, 1])
    failed = {error.index: error.message for error in many.errors}
    for index, (first, last) in enumerate(zip(many.firsts, many.lasts)):
        print("many", keys[index].decode(), failed.get(index) or f"{first} to {last}")

    # The last number given out, without taking one.
    print("current", sequence.call_with_retry("Current", key=key).value)

    # Every later number is above 1000.
    raised = sequence.call_with_retry("RaiseTo", key=key, value=1000).value
    print("raised to", raised, "next", sequence.call_with_retry("Next", key=key).first)

    # An error has a code, a text that says what to do, and a reason that a program can rely on.
    try:
        sequence.call_with_retry("Next", namespace="nowhere", key=key)
    except grpc.RpcError as error:
        reason, _ = details(error)
        print("rejected", reason, error.code().name, error.details())


if __name__ == "__main__":
    main(*sys.argv[1:5])
