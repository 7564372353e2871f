// Node.js' `redis` or `ioredis` (third argument) against the Redis endpoint on this port. `conform`: every kind
// of command, errors, pipelines. `run`: takes numbers until its input ends, and prints each as `key number`.
const assert = require('node:assert');
const { setTimeout: sleep } = require('node:timers/promises');

const [, , port, what, library] = process.argv;

// Operations of both libraries under the same names.
async function connect() {
  if (library === 'redis') {
    const { createClient } = require('redis');
    const client = createClient({ socket: { port: Number(port), reconnectStrategy: 50 } });
    client.on('error', () => {});
    await client.connect();
    return {
      ask: (...words) => client.sendCommand(words.map((w) => (Buffer.isBuffer(w) ? w : String(w)))),
      all: (commands) => Promise.allSettled(commands.map((words) => client.sendCommand(words))),
      end: () => client.destroy(),
    };
  }
  const Redis = require('ioredis');
  const client = new Redis({ port: Number(port), retryStrategy: () => 50, maxRetriesPerRequest: null });
  client.on('error', () => {});
  return {
    ask: (name, ...args) => client.call(name, ...args),
    all: async (commands) => {
      const answers = await client.pipeline(commands.map(([name, ...args]) => [name.toLowerCase(), ...args])).exec();
      return answers.map(([error, value]) => (error ? { reason: error } : { value }));
    },
    end: () => client.disconnect(),
  };
}

async function conform() {
  const r = await connect();
  const key = `${library}:a`;
  const refused = (text, ...words) => assert.rejects(r.ask(...words), (e) => e.message.includes(text), text);
  assert.equal(await r.ask('PING'), 'PONG');
  assert.equal(await r.ask('GET', key), null);
  assert.equal(await r.ask('INCR', key), 1);
  assert.equal(await r.ask('INCRBY', key, '10'), 11);
  assert.equal(await r.ask('GET', key), '11');
  assert.deepEqual(await r.ask('MGET', key, `${library}:none`), ['11', null]);
  assert.equal(await r.ask('SET', key, '100'), 'OK');
  assert.equal(await r.ask('INCR', key), 101);
  await refused('101 already, above 50', 'SET', key, '50');
  await refused('NX is not supported', 'SET', key, '500', 'NX');
  await refused('numbers only rise', 'DEL', key);
  await refused('there is no namespace', 'INCR', '@nosuch/1');
  await refused('INCRBY takes a range', 'MULTI');
  const odd = Buffer.from(`\r\n\0\x01 $*:@${library}`, 'latin1');
  assert.equal(await r.ask('INCR', odd), 1);
  assert.equal(await r.ask('INCR', odd), 2);
  const many = await r.all(Array.from({ length: 10_000 }, () => ['INCR', `${library}:many`]));
  many.forEach((answer, n) => assert.equal(answer.value, n + 1));
  const mixed = await r.all(
    Array.from({ length: 3_000 }, (_, n) => [n % 2 ? 'DECR' : 'INCR', `${library}:x`]),
  );
  mixed.forEach((answer, n) => (n % 2 ? assert(answer.reason) : assert.equal(answer.value, n / 2 + 1)));
  r.end();
}

async function run() {
  const r = await connect();
  let ended = false;
  process.stdin.on('end', () => (ended = true)).resume();
  while (!ended) {
    for (let n = 0; n < 20; n++) {
      try {
        const given = await Promise.race([r.ask('INCR', `run${n}`), sleep(10_000).then(() => Promise.reject())]);
        console.log(`run${n} ${given}`);
      } catch {
        await sleep(50);
      }
    }
  }
  r.end();
}

(what === 'conform' ? conform : run)().catch((error) => {
  console.error(error);
  process.exit(1);
});
