import { expect, it } from "vitest"
import { jsonCodec } from "../../../../protocols/translation/voice/wire.ts"

const json = (text: string) => jsonCodec.decode(Buffer.from(text), true)
const chunk = (data: string) => json(`{"source_media_chunk":{"data":"${data}"}}`)

it.each([["QUJD"], ["QUI="], ["QUI"], ["QQ=="], ["QQ"], ["QUJDQUI"]])(
  "voice 12.4 base64 with padding optional: %s",
  (data) => {
    expect(chunk(data)).toEqual({ is: "chunk", data: Buffer.from(data, "base64") })
  }
)

it.each([["QUJDA"], ["QUJD="], ["QQ="], ["QUJD-"], ["QU_D"], ["QU D"], ["QUJD="], ["Q"]])(
  "voice 12.8 data not of the standard alphabet or length is a bad member: %s",
  (data) => {
    expect(chunk(data)).toEqual({ is: "unknown", name: "source_media_chunk" })
  }
)

it.each([['QUJD"'], ["QUJD\\"], ["QUJD\n"]])(
  "voice 12.8 the short way takes nothing that is not JSON: %j",
  (data) => {
    expect(chunk(data)).toEqual({ is: "undecodable" })
  }
)
