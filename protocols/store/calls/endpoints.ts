/** The calls that belong to no resource of the engine: stock, order status, the category tree, decrypted
 *  records, carts, uploads.
 *  Source: docs/spec/store.md, sections 8.3, 8.6 to 8.10. */
import { Effect } from "effect"
import { noStore } from "../../shared/headers.ts"
import type { Store } from "../../../storage/store.ts"
import { writeNeed } from "../access/scopes.ts"
import { rebuildTree } from "../resources/categories.ts"
import { changeOrderStatus } from "../resources/orders.ts"
import type { Endpoint } from "../target.ts"
import { cartEndpoints } from "./carts.ts"
import { decryptedEndpoints } from "./decrypted.ts"
import { inventoryEndpoints } from "./inventory.ts"
import { written } from "./json-answer.ts"
import { uploadEndpoint } from "./upload.ts"

const orderStatus: Endpoint = {
  path: "orders/:id/status",
  methods: {
    PUT: {
      need: writeNeed("orders", "Orders"),
      body: "object",
      handle: ({ engine, id, body }) => written(engine, (tx) => changeOrderStatus(tx, id, body))
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
        // A failed write is repeated by the next call.
        Effect.runFork(Effect.ignoreCause(rebuildTree(engine)))
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
