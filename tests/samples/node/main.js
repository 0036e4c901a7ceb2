import { Shop } from './shop.js'

const shop = new Shop([process.env.KAFKA ?? '127.0.0.1:9092'])
await shop.start(Number(process.env.PORT ?? 8000))
process.once('SIGTERM', () => shop.stop())
