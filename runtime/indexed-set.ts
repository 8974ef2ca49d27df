/** What comes and goes with every request, each knowing its place: adding and removing touch one slot and
 *  leave nothing behind. A Set does: its outgrown tables each lead to the next, so that one which has grown
 *  old keeps what all later ones held until a full collection (bench/chat-turns). */
export interface Indexed {
  /** Of its bag; -1 in none. */
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
    const { index: place } = item
    if (place < 0) return
    item.index = -1
    const last = this.items.pop()!
    if (last === item) return
    this.items[place] = last
    last.index = place
  }

  /** Whoever is there at the beginning and still there at its turn, in no order, some maybe twice; `visit`
   *  may take any out or put some in. */
  each(visit: (item: A) => void): void {
    for (let at = this.items.length - 1; at >= 0; at--) {
      const item = this.items[at]
      if (item !== undefined) visit(item)
    }
  }
}
