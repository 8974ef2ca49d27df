/** Holds one value per choice of an answer. Nearly every answer has choice 0 alone, and it is guaranteed
 *  that no map is made for it (bench/chat-turns). */
export class PerChoice<A> {
  private first: A | undefined = undefined
  private others: Map<number, A> | undefined = undefined

  get(choice: number): A | undefined {
    return choice === 0 ? this.first : this.others?.get(choice)
  }

  set(choice: number, value: A): A {
    if (choice === 0) this.first = value
    else (this.others ??= new Map()).set(choice, value)
    return value
  }

  clear(): void {
    this.first = this.others = undefined
  }

  /** All values, in the order of their choices' numbers. */
  get list(): ReadonlyArray<readonly [choice: number, value: A]> {
    const { first, others } = this
    const list: Array<readonly [number, A]> = first === undefined ? [] : [[0, first]]
    return others === undefined ? list : [...list, ...others].sort(([a], [b]) => a - b)
  }
}
