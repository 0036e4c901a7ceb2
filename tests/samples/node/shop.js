// A shop: takes orders over HTTP, writes them to a topic, and counts what has been ordered everywhere.
import { EventEmitter } from 'node:events'
import { createServer } from 'node:http'
import { Kafka, logLevel } from 'kafkajs'

export class Shop extends EventEmitter {
  counts = {}
  server = createServer((request, response) => { this.#answer(request, response) })
  #producer
  #consumer

  constructor(brokers) {
    super()
    const kafka = new Kafka({ clientId: 'shop', brokers, logLevel: logLevel.ERROR })
    this.#producer = kafka.producer({ idempotent: true })
    this.#consumer = kafka.consumer({ groupId: 'counting' })
  }

  async start(port = 8000) {
    await this.#producer.connect()
    await this.#consumer.connect()
    await this.#consumer.subscribe({ topic: 'orders', fromBeginning: true })
    await this.#consumer.run({ eachMessage: async ({ message }) => this.#count(JSON.parse(message.value)) })
    await new Promise((resolve) => this.server.listen(port, '127.0.0.1', resolve))
  }

  async stop() {
    await new Promise((resolve) => this.server.close(resolve))
    await this.#consumer.disconnect()
    await this.#producer.disconnect()
  }

  #count({ item }) {
    this.counts[item] = (this.counts[item] ?? 0) + 1
    this.emit('counted')
  }

  async #order(item) {
    const message = { key: item, value: JSON.stringify({ item }) }
    const [place] = await this.#producer.send({ topic: 'orders', acks: -1, messages: [message] })
    return { partition: place.partition, offset: Number(place.baseOffset) }
  }

  async #answer({ method, url }, response) {
    const [, item] = /^\/orders\/([^/]+)$/.exec(url) ?? []
    if (method === 'POST' && item) {
      try {
        reply(response, 201, await this.#order(decodeURIComponent(item)))
      } catch (error) {
        reply(response, 503, { error: error.message })
      }
    } else if (method === 'GET' && url === '/counts') {
      reply(response, 200, this.counts)
    } else {
      reply(response, 404, { error: `nothing is at ${url}` })
    }
  }
}

function reply(response, status, body) {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
