import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, afterEach, before, beforeEach, test } from 'node:test'
import { Kafka, logLevel } from 'kafkajs'
import { TestServer } from 'logbus-testkit'
import { Shop } from './shop.js'

let server, shop, url

before(async () => { server = await TestServer.start() })
after(() => server.stop())
beforeEach(async () => {
  await server.reset()
  await server.createTopic('orders', { partitions: 3 })
  shop = new Shop(server.brokers)
  await shop.start(0)
  url = `http://127.0.0.1:${shop.server.address().port}`
})
afterEach(() => shop.stop())

async function order(item) {
  const response = await fetch(`${url}/orders/${item}`, { method: 'POST' })
  assert.equal(response.status, 201)
  return response.json()
}

// Compares what is counted once as many orders are.
async function counted(expected) {
  const sum = (counts) => Object.values(counts).reduce((a, b) => a + b, 0)
  const signal = AbortSignal.timeout(60_000)
  while (sum(shop.counts) < sum(expected)) await once(shop, 'counted', { signal })
  assert.deepEqual(await (await fetch(`${url}/counts`)).json(), expected)
}

test('orders are counted', async () => {
  for (const item of ['tea', 'cake', 'tea']) await order(item)
  await counted({ tea: 2, cake: 1 })
})

test('an order is written once', async () => {
  // The broker writes the order, and its answer is lost: the producer sends it again.
  const fault = await server.addFault({ action: 'disconnect', api: 'Produce', times: 1, after: true })
  assert.equal((await order('tea')).offset, 0)
  assert.equal(await server.faultHits(fault), 1)
  assert.equal((await order('tea')).offset, 1)
  await counted({ tea: 2 })
})

test('a broker restarts', async () => {
  await order('tea')
  await server.restartBroker(0)
  assert.equal((await order('tea')).offset, 1)
})

test('the group begins anew', async () => {
  await order('tea')
  await counted({ tea: 1 })
  await server.forceRebalance('counting')
  // The member joins again, and nothing is counted twice.
  await server.requests({ api: 'JoinGroup', count: 2, timeout: 60 })
  await order('tea')
  await counted({ tea: 2 })
})

test('a producer is fenced', async () => {
  const kafka = new Kafka({ brokers: server.brokers, logLevel: logLevel.NOTHING })
  const producer = kafka.producer({ transactionalId: 'till 1', maxInFlightRequests: 1, idempotent: true })
  await producer.connect()
  const sale = await producer.transaction()
  await sale.send({ topic: 'orders', messages: [{ value: '{"item": "tea"}' }] })
  await server.fenceProducer('till 1')
  await assert.rejects(sale.commit())
  await producer.disconnect()
})

test('a broker is cut off one way', async () => {
  const cluster = await TestServer.start({ brokers: 2, asVersion: '2.8' })
  try {
    await cluster.createTopic('orders', { partitions: 1, replicationFactor: 2 })
    const leader = await cluster.moveLeader('orders')
    // Nothing that the leader says arrives at the other one, until they are connected again.
    await cluster.cutOff(leader, [1 - leader], { way: 'from' })
    await assert.rejects(cluster.cutOff(leader, [1 - leader], { way: 'out' }), /way/)
    await cluster.reconnect(leader)
  } finally {
    await cluster.stop()
  }
  await assert.rejects(cluster.clearFaults(), /the server has ended; start another one/)
})

test('a wrong setting is told', async () => {
  await assert.rejects(TestServer.start({ settings: { 'num.partitions': 'none' } }), /num\.partitions: 'none'/)
})
