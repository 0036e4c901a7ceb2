// Runs logbus, a Kafka-compatible broker, for tests.
//
//   const server = await TestServer.start({ settings: { 'num.partitions': 3 } })
//   const kafka = new Kafka({ brokers: server.brokers })
//   ...
//   await server.stop()
//
// The command "logbus" must be on PATH; LOGBUS_COMMAND names another, with its arguments separated by blanks.
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const KEPT = 4096
const STOP_MS = 60_000

export class TestServer {
  #process
  #directory
  #ended
  #isOver = false
  #failure
  #said = ''
  #controlUrl
  #token

  /** Starts a server, and resolves when it serves clients. It ends with stop(), and with this process. */
  static async start(options = {}) {
    const server = new TestServer()
    await server.#start(options)
    return server
  }

  async #start({ brokers, settings = {}, asVersion, ownProcess = false, startTimeoutMs = 120_000 }) {
    this.#directory = await mkdtemp(join(tmpdir(), 'logbus-testkit-'))
    const file = join(this.#directory, 'server.json')
    const [command, ...args] = (process.env.LOGBUS_COMMAND || 'logbus').trim().split(/\s+/)
    args.push('test-server', '--port-file', file)
    if (brokers !== undefined) args.push('--brokers', String(brokers))
    if (asVersion !== undefined) args.push('--as-version', asVersion)
    if (ownProcess) args.push('--own-process')
    for (const [name, value] of Object.entries(settings)) args.push('--set', `${name}=${value}`)

    // The server ends when its standard input does: with stop(), and with this process, however that ends.
    this.#process = spawn(command, args, { stdio: ['pipe', 'ignore', 'pipe'] })
    this.#process.stdin.on('error', () => {})
    this.#process.stderr.on('data', (data) => { this.#said = (this.#said + data).slice(-KEPT) })
    this.#ended = new Promise((resolve) => {
      this.#process.once('error', (error) => { this.#failure = error; resolve() })
      this.#process.once('close', resolve)
    }).then(() => { this.#isOver = true })

    try {
      this.#read(await this.#waitFor(file, startTimeoutMs))
    } catch (error) {
      await this.stop()
      throw error
    }
    // A server that was forgotten does not keep the process of the tests alive.
    this.#process.unref()
    this.#process.stdin.unref()
    this.#process.stderr.unref()
  }

  async #waitFor(file, startTimeoutMs) {
    const deadline = Date.now() + startTimeoutMs
    for (;;) {
      const wasOver = this.#isOver
      try {
        return JSON.parse(await readFile(file, 'utf8'))
      } catch (error) {
        if (error.code !== 'ENOENT') throw error
      }
      if (this.#failure) {
        throw new Error(`logbus test server: ${this.#failure.message}; install logbus, or set LOGBUS_COMMAND`)
      }
      if (wasOver) throw new Error(`logbus test server ended: ${this.#said.trim()}`)
      if (Date.now() > deadline) {
        throw new Error(`logbus test server was not ready after ${startTimeoutMs} ms: ${this.#said.trim()}`)
      }
      await sleep(10)
    }
  }

  #read(told) {
    if (told.error) throw new Error(`logbus test server: ${told.error}`)
    /** HOST:PORT of all brokers, separated by commas. */
    this.bootstrap = told.bootstrap
    /** The same as a list. */
    this.brokers = told.bootstrap.split(',')
    /** The HTTP address of the first broker. */
    this.adminUrl = told.admin_url
    /** The address of its schema registry. */
    this.registryUrl = told.registry_url
    this.#controlUrl = told.control_url
    this.#token = told.token
  }

  /** Ends the server, and resolves when nothing of it is left. */
  async stop() {
    this.#process.ref()
    this.#process.stdin.end()
    const timer = setTimeout(() => this.#process.kill('SIGKILL'), STOP_MS)
    await this.#ended
    clearTimeout(timer)
    await rm(this.#directory, { recursive: true, force: true })
  }

  /** Has all brokers begin anew, empty, without faults and on the same addresses. */
  reset() { return this.control('POST', '/server/reset') }

  /** Creates a topic; without numbers, with the broker's defaults. */
  createTopic(name, { partitions, replicationFactor, configs } = {}) {
    return this.control('POST', '/topics', { name, partitions, replication_factor: replicationFactor, configs })
  }

  /** Deletes a topic. */
  deleteTopic(name) { return this.control('DELETE', `/topics/${name}`) }

  /** Adds a fault, such as {action: 'fail', api: 'Produce', error: 'NOT_ENOUGH_REPLICAS', times: 2}; its number. */
  async addFault(rule) { return (await this.control('POST', '/faults', rule)).id }

  /** How often a fault has happened, once that is `hits` times, or after `timeout` seconds. */
  async faultHits(id, { hits = 0, timeout = 0 } = {}) {
    return (await this.control('GET', `/faults/${id}?hits=${hits}&timeout=${timeout}`)).hits
  }

  /** Removes all faults. */
  clearFaults() { return this.control('DELETE', '/faults') }

  /** The requests that the brokers got: of an api, topic, partition, client_id, error; once there are count. */
  async requests(which = {}) {
    return (await this.control('GET', `/requests?${new URLSearchParams(which)}`)).items
  }

  stopBroker(id) { return this.#change(id, 'stop') }
  startBroker(id) { return this.#change(id, 'start') }
  restartBroker(id) { return this.#change(id, 'restart') }
  /** Ends a broker as a crash does: one of a cluster, or with ownProcess. */
  killBroker(id) { return this.#change(id, 'kill') }
  /** Has a broker do nothing, with its connections open, until thawBroker(). It needs ownProcess. */
  freezeBroker(id) { return this.#change(id, 'freeze') }
  thawBroker(id) { return this.#change(id, 'thaw') }

  /**
   * Lets nothing through between a broker of a cluster and others: numbers, or 'store'; without them, all of them.
   * With `way`, only in one direction: 'from' (nothing that it says arrives) or 'to' (it hears nothing).
   */
  cutOff(id, others, { way } = {}) { return this.control('POST', `/brokers/${id}/cut-off`, { others, way }) }
  reconnect(id) { return this.#change(id, 'reconnect') }
  /** Has the metadata store end the session of a broker of a cluster. */
  expireSession(id) { return this.#change(id, 'expire-session') }

  /** Has a broker with a replica lead a partition; without `to`, the next of them. Resolves to the leader's number. */
  async moveLeader(topic, partition = 0, to = undefined) {
    return (await this.control('POST', `/topics/${topic}/partitions/${partition}/move-leader`, { to })).leader
  }

  /** Leaves a transaction open, with a record in a partition; resolves to its transactional id. */
  async hangTransaction(topic, partition = 0) {
    return (await this.control('POST', '/transactions', { topic, partition })).transactional_id
  }

  /** Has all members of a group of the classic protocol join again. */
  forceRebalance(group) { return this.control('POST', `/groups/${encodeURIComponent(group)}/rebalance`) }

  /** Aborts the transaction of an id, and fences its producer: what that does next fails. */
  fenceProducer(transactionalId) {
    return this.control('POST', `/producers/${encodeURIComponent(transactionalId)}/fence`)
  }

  /** Lets time pass for the brokers, without waiting. */
  advance(seconds) { return this.control('POST', '/time/advance', { seconds }) }

  #change(id, what) { return this.control('POST', `/brokers/${id}/${what}`) }

  /** Sends a request to the control interface; resolves to the answer's JSON. */
  async control(method, path, body) {
    if (this.#isOver) throw new Error(`logbus test server: ${method} ${path}: the server has ended; start another one`)
    const response = await fetch(this.#controlUrl + path, {
      method,
      headers: { Authorization: `Bearer ${this.#token}`, 'Content-Type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body),
    })
    const text = await response.text()
    const answer = text ? JSON.parse(text) : undefined
    if (!response.ok) throw new Error(`logbus test server: ${method} ${path}: ${response.status}: ${answer?.detail}`)
    return answer
  }
}
