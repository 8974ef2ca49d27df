/** A set for members that come and go with every request. Each member remembers its own index, so adding and
 *  removing touch one slot and leave nothing behind. A `Set` does leave something: its outgrown tables form a
 *  chain, so that an old one retains everything the later ones held until a full collection
 *  (bench/chat-turns). */
export interface Indexed {
  /** The member's index in its set; -1 while it is in none. */
  index: number
}

export class IndexedSet<A extends Indexed> {
  private readonly items: Array<A> = []

  get size(): number {
    return this.items.length
  }

  add(item: A): void {
    if (item.index >= 0) return
    item.index = this.items.length
    this.items.push(item)
  }

  delete(item: A): void {
    const { index } = item
    if (index < 0) return
    item.index = -1
    const last = this.items.pop()!
    if (last === item) return
    this.items[index] = last
    last.index = index
  }

  /** Visits every member that is present from beginning to end, in no particular order, some maybe twice.
   *  `visit` may remove and add members. */
  forEach(visit: (item: A) => void): void {
    for (let i = this.items.length - 1; i >= 0; i--) {
      const item = this.items[i]
      if (item !== undefined) visit(item)
    }
  }
}
