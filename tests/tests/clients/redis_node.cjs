// Node.js' `redis` or `ioredis` (third argument) against the Redis endpoint on this port. `conform`: every kind
// of command, errors, pipelines. `run`: takes numbers until its input ends, and prints each as `key number`.
const assert = require('node:assert');
const { setTimeout: sleep } = require('node:timers/promises');

const [, , port, action, library] = process.argv;

// Operations of both libraries under the same names.
async function connect() {
  if (library === 'redis') {
    const { createClient } = require('redis');
    const client = createClient({ socket: { port: Number(port), reconnectStrategy: 50 } });
    client.on('error', () => {});
    await client.connect();
    return {
      send: (...words) => client.sendCommand(words.map((w) => (Buffer.isBuffer(w) ? w : String(w)))),
      sendAll: (commands) => Promise.allSettled(commands.map((words) => client.sendCommand(words))),
      close: () => client.destroy(),
    };
  }
  const Redis = require('ioredis');
  const client = new Redis({ port: Number(port), retryStrategy: () => 50, maxRetriesPerRequest: null });
  client.on('error', () => {});
  return {
    send: (name, ...args) => client.call(name, ...args),
    sendAll: async (commands) => {
      const answers = await client.pipeline(commands.map(([name, ...args]) => [name.toLowerCase(), ...args])).exec();
      return answers.map(([error, value]) => (error ? { reason: error } : { value }));
    },
    close: () => client.disconnect(),
  };
}

async function checkConformance() {
  const r = await connect();
  const key = `${library}:a`;
  const expectError = (text, ...words) => assert.rejects(r.send(...words), (e) => e.message.includes(text), text);
  assert.equal(await r.send('PING'), 'PONG');
  assert.equal(await r.send('GET', key), null);
  assert.equal(await r.send('INCR', key), 1);
  assert.equal(await r.send('INCRBY', key, '10'), 11);
  assert.equal(await r.send('GET', key), '11');
  assert.deepEqual(await r.send('MGET', key, `${library}:none`), ['11', null]);
  assert.equal(await r.send('SET', key, '100'), 'OK');
  assert.equal(await r.send('INCR', key), 101);
  await expectError('101 already, above 50', 'SET', key, '50');
  await expectError('XX is not supported', 'SET', key, '500', 'XX');
  await expectError('numbers only rise', 'DEL', key);
  await expectError('there is no namespace', 'INCR', '@nosuch/1');
  await expectError('numbers of its own', 'WATCH', key);
  const odd = Buffer.from(`\r\n\0\x01 $*:@${library}`, 'latin1');
  assert.equal(await r.send('INCR', odd), 1);
  assert.equal(await r.send('INCR', odd), 2);
  const many = await r.sendAll(Array.from({ length: 10_000 }, () => ['INCR', `${library}:many`]));
  many.forEach((answer, n) => assert.equal(answer.value, n + 1));
  const mixed = await r.sendAll(
    Array.from({ length: 3_000 }, (_, n) => [n % 2 ? 'DECR' : 'INCR', `${library}:x`]),
  );
  mixed.forEach((answer, n) => (n % 2 ? assert(answer.reason) : assert.equal(answer.value, n / 2 + 1)));
  r.close();
}

async function takeNumbers() {
  const r = await connect();
  let ended = false;
  process.stdin.on('end', () => (ended = true)).resume();
  while (!ended) {
    for (let n = 0; n < 20; n++) {
      try {
        const number = await Promise.race([r.send('INCR', `run${n}`), sleep(10_000).then(() => Promise.reject())]);
        console.log(`run${n} ${number}`);
      } catch {
        await sleep(50);
      }
    }
  }
  r.close();
}

(action === 'conform' ? checkConformance : takeNumbers)().catch((error) => {
  console.error(error);
  process.exit(1);
});
