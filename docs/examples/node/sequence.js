// Takes numbers from seqsvr; reads the methods from the .proto file.
//
//   npm install @grpc/grpc-js @grpc/proto-loader protobufjs
//   node sequence.js 127.0.0.1:7700 alice                       # a server without TLS
//   node sequence.js 127.0.0.1:7700 alice pki/client-billing    # with the certificate of `seqsvr cert client`
const fs = require('node:fs');
const path = require('node:path');
const { promisify } = require('node:util');
const { setTimeout: sleep } = require('node:timers/promises');
const grpc = require('@grpc/grpc-js');
const protoLoader = require('@grpc/proto-loader');
const protobuf = require('protobufjs');

const PROTO = path.join(__dirname, '../../../proto');
const loaded = protoLoader.loadSync('seqsvr/v1/sequence.proto', {
  includeDirs: [PROTO],
  // Numbers go up to 2^63-1, more than a JavaScript number holds exactly: they arrive as text.
  longs: String,
  defaults: true,
});
const { seqsvr } = grpc.loadPackageDefinition(loaded);

// The standard shape of error details (google.rpc), as far as it is used here.
const rpc = protobuf.parse(`
  syntax = "proto3";
  message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
  message Any { string type_url = 1; bytes value = 2; }
  message ErrorInfo { string reason = 1; string domain = 2; map<string, string> metadata = 3; }
  message RetryInfo { Duration retry_delay = 1; }
  message Duration { int64 seconds = 1; int32 nanos = 2; }
`, { keepCase: true }).root;

// Details of an error in addition to code and text: reason, and milliseconds to wait before a retry.
function details(error) {
  const found = {};
  const [bytes] = error.metadata?.get('grpc-status-details-bin') ?? [];
  if (!bytes) return found;
  for (const detail of rpc.lookupType('Status').decode(bytes).details) {
    if (detail.type_url.endsWith('/google.rpc.ErrorInfo')) {
      found.reason = rpc.lookupType('ErrorInfo').decode(detail.value).reason;
    } else if (detail.type_url.endsWith('/google.rpc.RetryInfo')) {
      const delay = rpc.lookupType('RetryInfo').decode(detail.value).retry_delay;
      found.retryMs = Number(delay.seconds) * 1000 + delay.nanos / 1e6;
    }
  }
  return found;
}

// Calls a method and retries temporary errors until the timeout in milliseconds. A number that an unanswered call
// may have taken is skipped, never given twice, so a retry is always safe.
async function callWithRetry(client, method, request, within = 5000) {
  const deadline = Date.now() + within;
  for (;;) {
    try {
      const call = promisify(client[method].bind(client));
      return await call(request, { deadline });
    } catch (error) {
      const { reason, retryMs } = details(error);
      const overloaded = error.code === grpc.status.RESOURCE_EXHAUSTED && reason === 'OVERLOADED';
      if (error.code !== grpc.status.UNAVAILABLE && !overloaded) throw error;
      // Wait as long as the server requests, plus a little random time, so that clients do not retry together.
      const pause = (retryMs ?? 50) * (1 + Math.random() / 2);
      if (Date.now() + pause > deadline) throw error;
      await sleep(pause);
    }
  }
}

function credentials(tlsDir) {
  if (!tlsDir) return grpc.credentials.createInsecure();
  const read = (file) => fs.readFileSync(path.join(tlsDir, file));
  return grpc.credentials.createSsl(read('ca.pem'), read('key.pem'), read('cert.pem'));
}

async function main(address, name, tlsDir) {
  // One client for the whole process: it carries many calls at once, and reconnects automatically.
  const client = new seqsvr.v1.Sequence(address, credentials(tlsDir));
  const key = Buffer.from(name);

  // The next number of one key. A uid (`uid: 42`) belongs to the namespace `default`, a key to `keys`.
  console.log('next', (await callWithRetry(client, 'Next', { key })).first);

  // Many keys in one call: one, five and one of them. Each item has an answer or an error of its own.
  const keys = ['a', 'b', 'c'].map((part) => Buffer.from(`${name}/${part}`));
  const many = await callWithRetry(client, 'NextMany', { keys, counts: [1, 5, 1] });
  const failed = new Map(many.errors.map((error) => [error.index, error.message]));
  many.firsts.forEach((first, n) => {
    console.log('many', keys[n].toString(), failed.get(n) ?? `${first} to ${many.lasts[n]}`);
  });

  // The last number given out, without taking one.
  console.log('current', (await callWithRetry(client, 'Current', { key })).value);

  // Every later number is above 1000.
  const raised = await callWithRetry(client, 'RaiseTo', { key, value: 1000 });
  console.log('raised to', raised.value, 'next', (await callWithRetry(client, 'Next', { key })).first);

  // An error has a code, a text that says what to do, and a reason that a program can rely on.
  try {
    await callWithRetry(client, 'Next', { namespace: 'nowhere', key });
  } catch (error) {
    console.log('rejected', details(error).reason, grpc.status[error.code], error.details);
  }
  client.close();
}

main(...process.argv.slice(2, 5)).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
