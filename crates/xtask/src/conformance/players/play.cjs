// Plays the steps of a program with one Node.js client, and prints each reply as a line of JSON: the number of the
// step, the number of its command or null, and the reply.
//
// Arguments: the client, its RESP version, the port, the file of the program.
const fs = require('node:fs');

const [, , library, protocol, port, path] = process.argv;

const FIELD = /(?:^|[ \r\n])([a-z0-9_-]+)[:=]/g;

// Returns the names of the fields of a text such as that of INFO.
function fields(text) {
  const names = Array.from(text.matchAll(FIELD), (match) => match[1]);
  return names.length ? `fields ${names.join(' ')}` : 'text';
}

// Writes a reply as one line: its type and value, or the class and text of its exception.
function render(value, shape = false) {
  if (value instanceof Error) {
    // The errors of the commands, in a transaction of ioredis and of node redis.
    const parts = value.previousErrors ?? value.replies;
    return `${value.constructor.name}: ${value.message}${parts ? ` ${render(parts)}` : ''}`;
  }
  if (value === null || value === undefined) return value === null ? 'nil' : 'undefined';
  if (typeof value === 'number' || typeof value === 'bigint') {
    const suffix = typeof value === 'bigint' ? 'n' : '';
    return shape ? `integer${suffix}` : `${value}${suffix}`;
  }
  if (typeof value === 'boolean') return shape ? 'boolean' : String(value);
  if (typeof value === 'string') return shape ? fields(value) : JSON.stringify(value);
  if (Buffer.isBuffer(value)) return `b${render(value.toString('latin1'), shape)}`;
  if (value instanceof Date) return shape ? 'date' : `date ${value.toISOString()}`;
  if (Array.isArray(value)) return `[${value.map((item) => render(item, shape)).join(', ')}]`;
  const pairs = value instanceof Map ? [...value] : Object.entries(value);
  return `{${pairs.map(([key, item]) => `${render(key)}: ${render(item, shape)}`).join(', ')}}`;
}

// Methods of node redis for a key, and for a key and a value.
const METHODS = [{
  INCR: 'incr', GET: 'get', EXISTS: 'exists', TYPE: 'type', TTL: 'ttl', PTTL: 'pTTL', PERSIST: 'persist',
  STRLEN: 'strLen', DECR: 'decr', EXPIRETIME: 'expireTime',
}, { SET: 'set', SETNX: 'setNX', GETSET: 'getSet' }];

async function openNodeRedis() {
  const { createClient } = require('redis');
  const client = createClient({ RESP: Number(protocol), socket: { port: Number(port), reconnectStrategy: 50 } });
  client.on('error', () => {});
  await client.connect();
  const send = (target, words, otherwise) => {
    const method = METHODS[words.length - 2]?.[words[0]];
    if (method) return target[method](...words.slice(1));
    if (words[0] === 'MGET' && words.length > 1) return target.mGet(words.slice(1));
    if (words.join(' ') === 'CLIENT INFO') return target.clientInfo();
    return otherwise(words);
  };
  return {
    call: (words) => send(client, words, (words) => client.sendCommand(words)),
    batch: async (commands, isTransaction, raises) => {
      const multi = client.multi();
      for (const words of commands) send(multi, words, (words) => multi.addCommand(words));
      try {
        return await (isTransaction ? multi.exec() : multi.execAsPipeline());
      } catch (error) {
        if (raises || !error.replies) throw error;
        return error.replies;
      }
    },
    close: () => client.destroy(),
  };
}

// ioredis, or iovalkey: the same calls.
async function openIoredis() {
  const Redis = require(library);
  const client = new Redis({ port: Number(port), protocol: Number(protocol), maxRetriesPerRequest: null });
  client.on('error', () => {});
  const special = ['multi', 'exec', 'quit', 'monitor', 'subscribe', 'pipeline', 'connect'];
  const send = (target, [name, ...args]) => {
    const method = name.toLowerCase();
    const isMethod = typeof client[method] === 'function' && Redis.prototype.hasOwnProperty(method) === false;
    return isMethod && !special.includes(method) ? target[method](...args) : target.call(name, ...args);
  };
  return {
    call: (words) => send(client, words),
    batch: async (commands, isTransaction) => {
      const pipeline = isTransaction ? client.multi() : client.pipeline();
      for (const words of commands) send(pipeline, words);
      const replies = await pipeline.exec();
      return replies.map(([error, value]) => error ?? value);
    },
    close: () => client.disconnect(),
  };
}

function show(step, command, text) {
  process.stdout.write(`${JSON.stringify([step, command, text])}\n`);
}

async function main() {
  const player = await (library === 'redis' ? openNodeRedis() : openIoredis());
  for (const [number, { kind, commands, shapes }] of JSON.parse(fs.readFileSync(path)).entries()) {
    if (kind === 'wire') continue;
    try {
      if (kind === 'call') {
        show(number, 0, render(await player.call(commands[0]), shapes[0]));
        continue;
      }
      const replies = await player.batch(commands, kind.startsWith('transaction'), kind.endsWith('!'));
      if (replies?.length === commands.length) {
        replies.forEach((reply, i) => show(number, i, render(reply, shapes[i])));
      } else {
        show(number, null, render(replies));
      }
    } catch (error) {
      show(number, kind === 'call' ? 0 : null, render(error));
    }
  }
  player.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
