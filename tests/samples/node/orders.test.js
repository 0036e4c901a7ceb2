import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { Kafka, logLevel } from 'kafkajs'
import { TestServer } from 'logbus-testkit'

let server

before(async () => { server = await TestServer.start({ settings: { 'auto.create.topics.enable': false } }) })
after(() => server.stop())
beforeEach(async () => {
  await server.reset()
  await server.createTopic('orders', { partitions: 3 })
})

function kafka() {
  return new Kafka({ clientId: 'orders', brokers: server.brokers, logLevel: logLevel.NOTHING, retry: { retries: 20 } })
}

test('an order arrives', async () => {
  const producer = kafka().producer()
  await producer.connect()
  await producer.send({ topic: 'orders', messages: [{ key: '42', value: 'two of those' }] })
  await producer.disconnect()

  const consumer = kafka().consumer({ groupId: 'kitchen' })
  await consumer.connect()
  await consumer.subscribe({ topic: 'orders', fromBeginning: true })
  const read = await new Promise((resolve, reject) => {
    consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) }).catch(reject)
  })
  assert.equal(read, 'two of those')
  await consumer.disconnect()
})

test('a producer tries again', async () => {
  const fault = await server.addFault({ action: 'fail', api: 'Produce', error: 'NOT_ENOUGH_REPLICAS', times: 1 })
  const producer = kafka().producer()
  await producer.connect()
  await producer.send({ topic: 'orders', messages: [{ value: 'late' }] })
  await producer.disconnect()
  assert.equal(await server.faultHits(fault, { hits: 1, timeout: 60 }), 1)
  const errors = (await server.requests({ api: 'Produce', count: 2, timeout: 60 })).map((each) => each.errors)
  assert.deepEqual(errors, [['NOT_ENOUGH_REPLICAS'], []])
})

test('a wrong setting is told', async () => {
  await assert.rejects(TestServer.start({ settings: { 'num.partitions': 'none' } }), /num\.partitions: 'none'/)
})
