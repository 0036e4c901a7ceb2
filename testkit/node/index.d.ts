export interface Options {
  /** How many brokers; more than one are a cluster. */
  brokers?: number
  /** By Kafka's names, such as 'num.partitions'. */
  settings?: Record<string, string | number | boolean>
  /** A release of Kafka, such as '2.8', whose API versions the brokers have. */
  asVersion?: string
  /** Each broker is a process of its own, which can be killed and frozen. */
  ownProcess?: boolean
  startTimeoutMs?: number
}

export interface Fault {
  action: 'fail' | 'delay' | 'drop' | 'disconnect' | 'corrupt' | 'throttle'
  api?: string | number
  client_id?: string
  topic?: string
  partition?: number
  times?: number
  skip?: number
  after?: boolean
  error?: string | number
  message?: string
  seconds?: number
  how?: 'flip' | 'garbage' | 'cut' | 'correlation'
  bytes_per_second?: number
}

export interface RecordedRequest {
  broker: number
  number: number
  api: string
  version: number
  client_id: string | null
  connection: number
  received: number
  answered: number | null
  partitions: { topic: string; partition: number | null }[]
  errors: string[]
}

export class TestServer {
  static start(options?: Options): Promise<TestServer>
  readonly bootstrap: string
  readonly brokers: string[]
  readonly adminUrl: string
  readonly registryUrl: string
  stop(): Promise<void>
  reset(): Promise<unknown>
  createTopic(
    name: string,
    options?: { partitions?: number; replicationFactor?: number; configs?: Record<string, string> },
  ): Promise<{ name: string; partitions: number }>
  deleteTopic(name: string): Promise<void>
  addFault(rule: Fault): Promise<number>
  faultHits(id: number, options?: { hits?: number; timeout?: number }): Promise<number>
  clearFaults(): Promise<void>
  requests(which?: Record<string, string>): Promise<RecordedRequest[]>
  stopBroker(id: number): Promise<unknown>
  startBroker(id: number): Promise<unknown>
  restartBroker(id: number): Promise<unknown>
  killBroker(id: number): Promise<unknown>
  freezeBroker(id: number): Promise<unknown>
  thawBroker(id: number): Promise<unknown>
  cutOff(id: number, others?: (number | 'store')[], options?: { way?: 'both' | 'from' | 'to' }): Promise<void>
  reconnect(id: number): Promise<void>
  expireSession(id: number): Promise<void>
  moveLeader(topic: string, partition?: number, to?: number): Promise<number>
  hangTransaction(topic: string, partition?: number): Promise<string>
  forceRebalance(group: string): Promise<void>
  fenceProducer(transactionalId: string): Promise<void>
  advance(seconds: number): Promise<void>
  control(method: string, path: string, body?: unknown): Promise<any>
}
