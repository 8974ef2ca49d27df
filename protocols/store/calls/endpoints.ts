/** The calls that belong to no resource of the engine: stock, order status, the category tree, decrypted
 *  records, carts, uploads.
 *  Source: docs/spec/store.md, sections 8.3, 8.6 to 8.10. */
import { noStore } from "../../shared/headers.ts"
import type { Store } from "../../../storage/store.ts"
import { writeNeed } from "../access/scopes.ts"
import { rebuildTree } from "../resources/categories.ts"
import { changeOrderStatus } from "../resources/orders.ts"
import type { Endpoint } from "../target.ts"
import { cartEndpoints } from "./carts.ts"
import { decryptedEndpoints } from "./decrypted.ts"
import { inventoryEndpoints } from "./inventory.ts"
import { jsonAnswer } from "./json-answer.ts"
import { uploadEndpoint } from "./upload.ts"

const orderStatus: Endpoint = {
  path: "orders/:id/status",
  methods: {
    PUT: {
      need: writeNeed("orders", "Orders"),
      body: "object",
      handle: async ({ engine, id, body }) =>
        jsonAnswer(200, await engine.write((tx) => changeOrderStatus(tx, id, body)))
    }
  }
}

const categoryTree: Endpoint = {
  path: "categories/rebuild_tree",
  methods: {
    POST: {
      need: writeNeed("catalog", "Categories"),
      body: "optional",
      handle: ({ engine }) => {
        void rebuildTree(engine).catch(() => {
          // A failed write is repeated by the next call.
        })
        return { status: 204, headers: [noStore] }
      }
    }
  }
}

export const storeEndpoints = (store: Store): ReadonlyArray<Endpoint> => [
  ...inventoryEndpoints,
  orderStatus,
  categoryTree,
  ...decryptedEndpoints,
  ...cartEndpoints,
  uploadEndpoint(store)
]
